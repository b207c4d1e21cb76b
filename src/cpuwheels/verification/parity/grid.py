"""Results as a grid of operators and libraries, which the terminal and the page show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.verification.parity.results import WRONG

if TYPE_CHECKING:
    from cpuwheels.verification.parity.results import Parity, Row, Verdict


@dataclass(frozen=True)
class Cell:
    """One operator on one library.

    Attributes:
        rows: Its data types; none if the library does not have it.
    """

    rows: tuple[Row, ...]

    @property
    def verdict(self) -> Verdict | None:
        """The first that is wrong; else what all are, or ``passed``. None if there are no rows."""
        verdicts = [row.verdict for row in self.rows]
        if wrong := next((verdict for verdict in verdicts if verdict in WRONG), None):
            return wrong
        return "passed" if len(set(verdicts)) > 1 else next(iter(verdicts), None)

    @property
    def worst(self) -> float:
        """The worst error of those that passed, as a share of its limit."""
        return max(row.ratio or 0.0 for row in self.rows if row.verdict == "passed")

    @property
    def share(self) -> str:
        """`worst`, to be read."""
        return "exact" if self.worst == 0 else f"{self.worst:.2f}"

    @property
    def known(self) -> int:
        """How many cases show a known fault."""
        return sum(row.known for row in self.rows)


@dataclass(frozen=True)
class Line:
    """One operator; a cell for each library."""

    operator: str
    cells: tuple[Cell, ...]

    @property
    def reason(self) -> str:
        """Why it is waived; empty if it is not."""
        return next((row.reason for cell in self.cells for row in cell.rows if row.reason), "")


def grid(parity: Parity) -> list[Line]:
    """Return a line for each operator, in alphabetical order; its cells are in the order of the libraries."""
    by_operator: dict[str, dict[str, list[Row]]] = {}
    for row in parity.rows:
        by_operator.setdefault(row.operator, {}).setdefault(row.library, []).append(row)
    return [
        Line(operator, tuple(Cell(tuple(rows.get(library.name, ()))) for library in parity.libraries))
        for operator, rows in sorted(by_operator.items())
    ]
