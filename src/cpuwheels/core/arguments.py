"""Options of a command line, from their names and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def named_arguments(named: Mapping[str, str | None]) -> list[str]:
    """Return each option with its value, in their order; none for a value that is None.

    Args:
        named: Values by the names of the options, such as ``--memory``.
    """
    return [part for name, value in named.items() if value is not None for part in (name, value)]
