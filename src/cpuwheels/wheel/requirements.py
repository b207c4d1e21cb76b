"""Requirements of a wheel that has to go on an index: no URLs, every extra under its own name.

An index refuses a wheel whose ``Requires-Dist`` holds a direct URL, and installers refuse one as a
transitive dependency. Every URL requirement therefore becomes a plain one, pinned to the version in the URL's file
name, under an extra named after the distribution. Whoever wants it asks for that extra and says where the distribution
can be found.
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from cpuwheels.core.errors import WheelError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.version import Version

# Build backends write the extra's condition last; packaging prints it with double quotes.
_EXTRA_LAST = re.compile(r'(?:(?P<rest>.*) and )?extra == "(?P<extra>[^"]+)"', re.DOTALL)


@dataclass(frozen=True)
class MovedRequirement:
    """A URL requirement that was made plain.

    Attributes:
        original: As the source declares it.
        replacement: The requirement in the wheel that replaces it, without the extra's condition.
        extra: The extra that it is listed under.
    """

    original: str
    replacement: str
    extra: str


@dataclass(frozen=True)
class Requirements:
    """The requirements of a wheel.

    Attributes:
        always: Those without an extra, in the order declared.
        extras: Extra → its requirements, sorted by extra; an empty extra is kept.
        moved: URL requirements that were made plain.
    """

    always: tuple[str, ...]
    extras: tuple[tuple[str, tuple[str, ...]], ...]
    moved: tuple[MovedRequirement, ...]


def sort_requirements(lines: Iterable[str], extras: Iterable[str]) -> Requirements:
    """Return ``Requires-Dist`` and ``Provides-Extra`` lines sorted by extra, with no URL left.

    Raises:
        WheelError: A line is not a requirement, or its extra is not where backends write it.
    """
    always: list[str] = []
    by_extra: dict[str, list[str]] = {canonicalize_name(extra): [] for extra in extras}
    moved: list[MovedRequirement] = []
    for line in lines:
        requirement, extra = _without_extra(line)
        if requirement.url is not None:
            extra = canonicalize_name(requirement.name)
            plain = plain_requirement(requirement)
            moved.append(MovedRequirement(line.strip(), plain, extra))
            by_extra.setdefault(extra, []).append(plain)
        elif extra is None:
            always.append(str(requirement))
        else:
            by_extra.setdefault(extra, []).append(str(requirement))
    return Requirements(
        always=tuple(always),
        extras=tuple((extra, tuple(by_extra[extra])) for extra in sorted(by_extra)),
        moved=tuple(moved),
    )


def plain_requirement(requirement: Requirement) -> str:
    """Return a URL requirement as one an index can serve: the version of the URL's file, the same marker."""
    plain = Requirement(requirement.name)
    plain.extras = requirement.extras
    plain.marker = requirement.marker
    version = version_in_url(requirement.url or "")
    text = str(plain)
    if version is None:
        return text
    head, separator, marker = text.partition(";")
    return f"{head.rstrip()}=={version}{separator}{marker}"


def version_in_url(url: str) -> Version | None:
    """Return the version in the name of the wheel or sdist a URL points at, or None."""
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
    try:
        if name.endswith(".whl"):
            return parse_wheel_filename(name)[1]
        return parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def _without_extra(line: str) -> tuple[Requirement, str | None]:
    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        raise WheelError(f"{line!r} is not a requirement: {error}", where="Requires-Dist") from error
    if requirement.marker is None:
        return requirement, None
    marker = str(requirement.marker)
    match = _EXTRA_LAST.fullmatch(marker)
    rest = match["rest"] if match else marker
    if rest is not None and re.search(r"\bextra\b", rest):
        raise WheelError(
            f"cannot tell which extra {line!r} belongs to",
            where="Requires-Dist",
            next_step='the marker should end in: and extra == "name"',
        )
    if match is None:
        return requirement, None
    requirement.marker = Marker(rest) if rest else None
    return requirement, canonicalize_name(match["extra"])
