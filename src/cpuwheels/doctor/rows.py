"""The findings of the doctor for a person: a row for each as soon as it is known, and the verdict last."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from cpuwheels.doctor.check import can_build, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cpuwheels.doctor.check import Check, Status

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "info": "dim"}
_STATUS_WIDTH = max(map(len, _STYLES))
_NAME_WIDTH = 34
"""The longest name of a usual check: the packages of a lock."""

_COLUMNS_FROM = 96
"""Smallest width of a terminal in which names have a column of their own; 54 columns are left for what was found."""


def print_checks(console: Console, target: str, checks: Iterable[Check]) -> tuple[Check, ...]:
    """Print each check when it is known, then the verdict.

    Args:
        console: Where to print. A terminal is filled to its width; elsewhere a line is never broken.
        target: Target id.
        checks: The checks; getting the next may take seconds.

    Returns:
        The checks that were printed.
    """
    seen: list[Check] = []
    with console.status(f"checking what {target} needs") if console.is_terminal else nullcontext():
        for check in checks:
            seen.append(check)
            console.print(_row(check, console), soft_wrap=not console.is_terminal, highlight=False)
    style = "bold green" if can_build(seen) else _STYLES["fail"]
    console.print(Text(verdict(target, seen), style=style), soft_wrap=not console.is_terminal)
    return tuple(seen)


def _row(check: Check, console: Console) -> Table | Text:
    status = Text(check.status.ljust(_STATUS_WIDTH), style=_STYLES[check.status])
    name, found = Text(check.name, style="bold"), Text(check.detail)
    step = Text(f"next: {check.next_step}" if check.next_step else "", style="italic")
    if not console.is_terminal:
        line = Text.assemble(status, "  ", name, ": ", found)
        return Text("\n").join([line, Text.assemble(" " * (_STATUS_WIDTH + 2), step)]) if step else line
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=_STATUS_WIDTH)
    if console.width >= _COLUMNS_FROM:
        row.add_column(width=_NAME_WIDTH, overflow="fold")
        cells = [name, found]
    else:
        cells = [Text.assemble(name, ": ", found)]
    row.add_column(overflow="fold")
    row.add_row(status, *cells)
    if step:
        row.add_row(*[""] * len(cells), step)
    return row
