"""What installing a wheel would put in the place of something else: other packages, ``.pth`` files, programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cpuwheels.core.errors import WheelError
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.wheel.core_metadata import read_entry_points

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_PROGRAMS = ("console_scripts", "gui_scripts")
_AT_START = ("sitecustomize", "usercustomize")
_PROGRAM = re.compile(r"\w[\w.-]*", re.ASCII)


def name_faults(names: Iterable[str], packages: frozenset[str], dist_info: str) -> Iterator[str]:
    """Yield the top-level names of a wheel's files that are not its own.

    A ``.pth`` file is run by every Python of the environment, a file of ``<name>.data/scripts`` becomes a program, and
    another package would be imported in the place of the right one.

    Args:
        names: Of the wheel's files.
        packages: Its own packages.
        dist_info: Name of its ``.dist-info`` folder.
    """
    own = {dist_info, *packages, *(f"{package}.libs" for package in packages)}
    other = {name.partition("/")[0] for name in names} - own
    yield from (f"{name} would be installed outside of {', '.join(sorted(packages))}" for name in sorted(other))


def refuse_startup_code(wheel: Path) -> None:
    """Refuse a wheel of somebody else's that every Python of an environment would run as soon as it starts.

    uv starts an environment's Python to see what it is, and nothing confines uv.

    Raises:
        WheelError: It has a ``.pth`` file or a module that `site` imports, or is not a readable wheel.
    """
    with open_zip(wheel) as archive:
        paths = [name.split("/") for name in archive.names]
    # Of what is in NAME.data/purelib/, the third part comes to the top.
    for name in sorted({path[2] if path[0].endswith(".data") and path[2:] else path[0] for path in paths}):
        if name.endswith(".pth") or name.partition(".")[0] in _AT_START:
            raise WheelError(
                f"{wheel.name} has {name}, which every Python of the environment would run when it starts",
                where=wheel,
                next_step="do not install it; without --index the commit is built here",
            )


def program_faults(entry_points: str, packages: frozenset[str]) -> Iterator[str]:
    """Yield the programs of ``entry_points.txt`` that could be taken for another one.

    Args:
        entry_points: Its text.
        packages: The wheel's own packages; a program's name has to begin with one of their names.
    """
    try:
        groups = dict(read_entry_points(entry_points))
    except WheelError as error:
        yield " ".join(error.what.split())
        return
    for group in _PROGRAMS:
        for name, target in groups.get(group, ()):
            own = any(name == package or name.startswith((f"{package}-", f"{package}_")) for package in packages)
            if not own or not _PROGRAM.fullmatch(name):
                yield f"entry_points.txt installs the program {name}"
            if target.partition(":")[0].partition(".")[0].strip() not in packages:
                yield f"entry_points.txt has the program {name} run {target}, which is not in this wheel"
