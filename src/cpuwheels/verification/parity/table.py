"""Parity on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cpuwheels.core.tables import Column, Table
from cpuwheels.verification.parity.grid import Cell, grid
from cpuwheels.verification.parity.results import EMULATED

if TYPE_CHECKING:
    from cpuwheels.verification.parity.comparison import Change
    from cpuwheels.verification.parity.results import Parity

DRIFTING = 0.8
"""An error of at least this share of its limit is shown as close to it."""

_MARKS = {
    "passed": "green",
    "known": "magenta",
    "failed": "red",
    "crashed": "bold red",
    "waived": "yellow",
    "untested": "red",
}


def parity_table(parity: Parity) -> Table:
    """Return a table of operators and libraries: the worst error of each as a share of its limit."""
    known = parity.known
    captions = []
    if known:
        captions.append(f"* and calls that show one of {len(known)} known upstream faults: docs/findings.md")
    if parity.emulated:
        captions.append(f"On {parity.machine}. {EMULATED}")
    libraries = [Column(library.name, right=True, alike=True) for library in parity.libraries]
    title = f"{parity.wheel}: worst error, as a share of its limit"
    table = Table((Column("operator"), Column("cases", right=True), *libraries), title, captions)
    for line in grid(parity):
        cases = max(sum(row.cases for row in cell.rows) for cell in line.cells)
        table.add_row(line.operator, str(cases), *map(_cell, line.cells))
    return table


def change_table(changes: list[Change], other: str) -> Table:
    """Return a table of the differences from another wheel."""
    names = ("operator", "library", "data type", "", "before", "now")
    table = Table([Column(name, right=name in {"before", "now"}) for name in names], f"not as in {other}")
    for change in changes:
        row = change.after or change.before
        assert row is not None  # noqa: S101  (a change has one of them)
        before = _cell(Cell((change.before,))) if change.before else Text("-")
        after = _cell(Cell((change.after,))) if change.after else Text("-")
        table.add_row(row.operator, row.library, row.dtype, change.what, before, after)
    return table


def _cell(cell: Cell) -> Text:
    if cell.verdict is None:
        return Text("-", style="dim")
    if cell.verdict != "passed":
        return Text(cell.verdict, style=_MARKS[cell.verdict])
    text = Text(cell.share, style="yellow" if cell.worst >= DRIFTING else "green")
    return text.append("*", style=_MARKS["known"]) if cell.known else text
