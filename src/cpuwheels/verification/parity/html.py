"""``parity.html``: operators and libraries as a heat map, on one self-contained page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.templates import templates
from cpuwheels.verification.parity.failures import failures
from cpuwheels.verification.parity.grid import grid
from cpuwheels.verification.parity.results import EMULATED, WRONG

if TYPE_CHECKING:
    from cpuwheels.verification.parity.grid import Cell
    from cpuwheels.verification.parity.results import Judgement, Parity

MARKS: dict[Judgement, str] = {"passed": "✓", "passed in part": "◐", "failed": "✗"}

_SHADES = ((0.0, "exact"), (0.25, "far"), (0.5, "near"), (0.8, "close"), (1.0, "edge"))
"""Upper ends of the heat map's classes, as shares of the limit."""

_KINDS = {"wrong": "✗ wrong", "known": "▲ known fault", "not tested": "○ not tested", "passed": "✓ passed"}
"""What the page's filter tells apart."""


@dataclass(frozen=True)
class _Shown:
    """How the page shows a cell.

    Attributes:
        shade: CSS class.
        kind: What the filter takes it for; empty if the library does not have the operator.
        text: Its text.
    """

    shade: str
    kind: str
    text: str


def parity_page(parity: Parity) -> str:
    """Return the page's text."""
    environment = templates("cpuwheels.verification.parity")
    environment.filters |= {"shown": _shown, "share": share}
    lines = grid(parity)
    there = {_shown(cell).kind for line in lines for cell in line.cells}
    return environment.get_template("parity.html.j2").render(
        parity=parity,
        marks=MARKS,
        emulated=EMULATED if parity.emulated else "",
        libraries=parity.libraries,
        columns=[(library.name, library.name) for library in parity.libraries],
        choices=[(kind, words) for kind, words in _KINDS.items() if kind in there],
        lines=lines,
        operators=len({row.operator for row in parity.rows}),
        cases=sum(len(library.cases) for library in parity.libraries),
        wrong_operators=len({row.operator for row in parity.wrong}),
        problems=failures(parity),
        known=parity.known,
        expired=[(library, case) for library, case in parity.cases if case.expired],
        shades=[(shade, f"up to {end:.0%}" if end else "exact") for end, shade in _SHADES],
    )


def share(ratio: float) -> str:
    """Return an error in per cent of its limit, on the page's one scale; what is not exact is never 0 %."""
    if ratio == 0:
        return "exact"
    return "below 1%" if ratio < 0.01 else f"{ratio:.0%}"  # noqa: PLR2004


def _shown(cell: Cell) -> _Shown:
    if cell.verdict is None:
        return _Shown("none", "", "")
    if cell.verdict in WRONG:
        return _Shown("wrong", "wrong", f"✗ {cell.verdict}")
    if cell.verdict == "known":
        return _Shown("known", "known", f"▲ {cell.known} known")
    if cell.verdict == "waived":
        return _Shown("waived", "not tested", "○ waived")
    shade = next(shade for end, shade in _SHADES if cell.worst <= end)
    if cell.known:
        return _Shown(shade, "known", f"▲ {cell.known} known, {share(cell.worst)}")
    return _Shown(shade, "passed", share(cell.worst))
