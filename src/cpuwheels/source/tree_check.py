"""A source is refused that has names of this program's own files, names that collide, or links that leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import UnsuitableSourceError
from cpuwheels.core.text import first_lines
from cpuwheels.core.tree_faults import link_faults, name_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_SHOWN = 5


def check_names(names: Iterable[str], what: str) -> None:
    """Check the names of a source's files and links.

    Args:
        names: Relative POSIX paths.
        what: What a message calls the source.

    Raises:
        UnsuitableSourceError: One may not be in a source.
    """
    _check(name_faults(names), what)


def check_links(folder: Path, names: Iterable[str], what: str) -> None:
    """Check that the links of a source lead to places within it.

    Args:
        folder: The source.
        names: Relative POSIX paths of its files and links.
        what: What a message calls it.

    Raises:
        UnsuitableSourceError: One leads out of it, or is absolute.
    """
    _check(link_faults(folder, names), what)


def _check(faults: Sequence[str], what: str) -> None:
    if faults:
        raise UnsuitableSourceError(
            f"{what} has a file that may not be in a source: {faults[0]}",
            where="--source",
            output="\n".join(first_lines(faults, _SHOWN)) if len(faults) > 1 else "",
            next_step="give another source; in a tree of your own, rename the file or make the link relative",
        )
