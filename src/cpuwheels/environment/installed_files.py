"""Which files of a lock are installed in an environment: by name, version and the tags of the installed wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from cpuwheels.core.text import parse_headers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from packaging.tags import Tag

    from cpuwheels.config.python_lock import LockedFile


def installed_files(site: Path, files: Iterable[LockedFile]) -> dict[str, LockedFile | None]:
    """Return the packages of an environment, each with the file that it was installed from; None if no file fits.

    uv has compared each file with the lock's digests. Which of a package's wheels it took is told by the tags that an
    installed wheel keeps.

    Args:
        site: The environment's ``site-packages``.
        files: Of the lock that was installed.
    """
    wheels: dict[tuple[str, str], list[LockedFile]] = {}
    for file in files:
        wheels.setdefault((canonicalize_name(file.project), file.version), []).append(file)
    found: dict[str, LockedFile | None] = {}
    for folder in sorted(site.glob("*.dist-info")):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        tags = _installed_tags(folder)
        of_it = wheels.get((canonicalize_name(name), version), [])
        fitting = [file for file in of_it if tags and tags == _tags_of(file.name)]
        found[f"{canonicalize_name(name)} {version}"] = fitting[0] if len(fitting) == 1 else None
    return found


def _installed_tags(folder: Path) -> frozenset[Tag]:
    try:
        headers = parse_headers((folder / "WHEEL").read_bytes())
    except OSError:
        return frozenset()
    return frozenset(tag for text in headers.get_all("Tag", []) for tag in parse_tag(text.strip()))


def _tags_of(name: str) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return frozenset()
