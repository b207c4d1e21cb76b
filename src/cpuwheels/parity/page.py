"""``parity.html``: operators and libraries as a heat map, on one self-contained page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from cpuwheels.console import clock
from cpuwheels.parity.results import WRONG

if TYPE_CHECKING:
    from cpuwheels.parity.results import CaseResult, Parity, Row

_SHADES = ((0.0, "exact"), (0.25, "far"), (0.5, "near"), (0.8, "close"), (1.0, "edge"))
"""Upper ends of the heat map's classes, as shares of the limit."""


@dataclass(frozen=True)
class _Cell:
    """One operator on one library.

    Attributes:
        shade: CSS class.
        text: What is read in it.
        rows: Its data types.
    """

    shade: str
    text: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class _Line:
    operator: str
    cells: tuple[_Cell, ...]
    reason: str


def parity_page(parity: Parity) -> str:
    """Return the page's text."""
    environment = Environment(
        loader=PackageLoader("cpuwheels.parity", "."), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"seconds": clock}
    names = [library.name for library in parity.libraries]
    return environment.get_template("parity.html.j2").render(
        parity=parity,
        libraries=parity.libraries,
        lines=_lines(parity.rows, names),
        operators=len({row.operator for row in parity.rows}),
        cases=sum(len(library.cases) for library in parity.libraries),
        wrong_operators=len({row.operator for row in parity.wrong}),
        problems=[(library, case) for library, case in parity.cases if case.verdict in WRONG],
        known=_known(parity),
        mended=[(library, case) for library, case in parity.cases if case.mended],
        shades=[(shade, f"up to {end:.0%}" if end else "exact") for end, shade in _SHADES],
    )


def _known(parity: Parity) -> dict[str, list[tuple[str, CaseResult]]]:
    """Return the cases that show known faults, with their libraries, by fault."""
    found: dict[str, list[tuple[str, CaseResult]]] = {}
    for library, case in parity.cases:
        if case.verdict == "known":
            found.setdefault(case.known, []).append((library, case))
    return found


def _lines(rows: list[Row], libraries: list[str]) -> list[_Line]:
    by_operator: dict[str, list[Row]] = {}
    for row in rows:
        by_operator.setdefault(row.operator, []).append(row)
    return [
        _Line(
            operator,
            tuple(_cell([row for row in found if row.library == name]) for name in libraries),
            next((row.reason for row in found if row.reason), ""),
        )
        for operator, found in sorted(by_operator.items())
    ]


def _cell(rows: list[Row]) -> _Cell:
    if not rows:
        return _Cell("none", "", ())
    if wrong := next((row for row in rows if row.verdict in WRONG), None):
        return _Cell("wrong", wrong.verdict, tuple(rows))
    if all(row.verdict == "waived" for row in rows):
        return _Cell("waived", "waived", tuple(rows))
    known = sum(row.known for row in rows)
    if all(row.verdict == "known" for row in rows):
        return _Cell("known", f"{known} known", tuple(rows))
    worst = max(row.ratio or 0.0 for row in rows if row.verdict == "passed")
    shade = next(shade for end, shade in _SHADES if worst <= end)
    text = "exact" if worst == 0 else f"{worst:.2f}"
    return _Cell(shade, f"{known} known, {text}" if known else text, tuple(rows))
