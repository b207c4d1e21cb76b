"""The terminal's view of parity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from cpuwheels.parity.results import WRONG

if TYPE_CHECKING:
    from cpuwheels.parity.comparison import Change
    from cpuwheels.parity.results import Parity, Row

DRIFTING = 0.8
"""From this share of its limit on an error is shown as coming close."""

_WIDTH = 10
"""Of a library's column; the names of libraries on emulated CPUs are longer."""

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
    libraries = [library.name for library in parity.libraries]
    known = {case.known for _, case in parity.cases if case.verdict == "known"}
    table = Table(title=f"{parity.wheel}: worst error, as a share of its limit", title_justify="left")
    if known:
        table.caption = f"* and calls that show one of {len(known)} known faults of upstream's: docs/findings.md"
        table.caption_justify = "left"
    table.add_column("operator", overflow="fold")
    table.add_column("cases", justify="right")
    for name in libraries:
        table.add_column(name, justify="right", max_width=_WIDTH, overflow="fold")
    by_operator: dict[str, list[Row]] = {}
    for row in parity.rows:
        by_operator.setdefault(row.operator, []).append(row)
    for operator, rows in sorted(by_operator.items()):
        cells = [_cell([row for row in rows if row.library == name]) for name in libraries]
        table.add_row(operator, str(max(_cases(rows).values())), *cells)
    return table


def change_table(changes: list[Change], other: str) -> Table:
    """Return a table of what is not as in another wheel."""
    table = Table(title=f"not as in {other}", title_justify="left")
    for heading in ("operator", "library", "data type", "", "before", "now"):
        table.add_column(heading, justify="right" if heading in {"before", "now"} else "left", overflow="fold")
    for change in changes:
        row = change.after or change.before
        assert row is not None  # noqa: S101  (a change has one of them)
        before = _cell([change.before]) if change.before else Text("-")
        after = _cell([change.after]) if change.after else Text("-")
        table.add_row(row.operator, row.library, row.dtype, change.what, before, after)
    return table


def _cases(rows: list[Row]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[row.library] = found.get(row.library, 0) + row.cases
    return found


def _cell(rows: list[Row]) -> Text:
    if not rows:
        return Text("-", style="dim")
    wrong = next((row for row in rows if row.verdict in WRONG), None)
    if wrong:
        return Text(wrong.verdict, style=_MARKS[wrong.verdict])
    if all(row.verdict == "waived" for row in rows):
        return Text("waived", style=_MARKS["waived"])
    if all(row.verdict == "known" for row in rows):
        return Text("known", style=_MARKS["known"])
    worst = max(row.ratio or 0.0 for row in rows if row.verdict == "passed")
    cell = Text("exact" if worst == 0 else f"{worst:.2f}", style="yellow" if worst >= DRIFTING else "green")
    return cell.append("*", style=_MARKS["known"]) if any(row.known for row in rows) else cell
