"""Lists as people read them: the first few, and how many more there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def first_lines(lines: Sequence[str], count: int, where: str = "") -> list[str]:
    """Return the first lines, and one that says how many more there are.

    Args:
        lines: All of them.
        count: How many are shown at most.
        where: Where the others are, such as ``see the log``.
    """
    if len(lines) <= count:
        return list(lines)
    return [*lines[:count], f"and {len(lines) - count} more{f', {where}' if where else ''}"]


def first_names(names: Sequence[str], count: int) -> str:
    """Return the first names on one line, and how many more there are."""
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return f"{', '.join(names[:count])}{more}"
