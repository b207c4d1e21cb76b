"""What installing a wheel would put in the place of something else: other packages, ``.pth`` files, programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.core_metadata import read_entry_points

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PROGRAMS = ("console_scripts", "gui_scripts")


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
            if not any(name == package or name.startswith((f"{package}-", f"{package}_")) for package in packages):
                yield f"entry_points.txt installs the program {name}"
            if target.partition(":")[0].partition(".")[0].strip() not in packages:
                yield f"entry_points.txt has the program {name} run {target}, which is not in this wheel"
