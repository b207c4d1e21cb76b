"""``parity.html``: operators and libraries as a heat map, on one self-contained page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.templates import templates
from cpuwheels.verification.parity.grid import grid
from cpuwheels.verification.parity.results import EMULATED, WRONG

if TYPE_CHECKING:
    from cpuwheels.verification.parity.grid import Cell
    from cpuwheels.verification.parity.results import Parity

_SHADES = ((0.0, "exact"), (0.25, "far"), (0.5, "near"), (0.8, "close"), (1.0, "edge"))
"""Upper ends of the heat map's classes, as shares of the limit."""


@dataclass(frozen=True)
class _Shown:
    """How the page shows a cell.

    Attributes:
        shade: CSS class.
        text: Its text.
    """

    shade: str
    text: str


def parity_page(parity: Parity) -> str:
    """Return the page's text."""
    environment = templates("cpuwheels.verification.parity")
    environment.filters["shown"] = _shown
    return environment.get_template("parity.html.j2").render(
        parity=parity,
        emulated=EMULATED if parity.emulated else "",
        libraries=parity.libraries,
        lines=grid(parity),
        operators=len({row.operator for row in parity.rows}),
        cases=sum(len(library.cases) for library in parity.libraries),
        wrong_operators=len({row.operator for row in parity.wrong}),
        problems=[(library, case) for library, case in parity.cases if case.verdict in WRONG],
        known=parity.known,
        expired=[(library, case) for library, case in parity.cases if case.expired],
        shades=[(shade, f"up to {end:.0%}" if end else "exact") for end, shade in _SHADES],
    )


def _shown(cell: Cell) -> _Shown:
    if cell.verdict is None:
        return _Shown("none", "")
    if cell.verdict in WRONG:
        return _Shown("wrong", cell.verdict)
    if cell.verdict == "known":
        return _Shown("known", f"{cell.known} known")
    if cell.verdict == "waived":
        return _Shown("waived", "waived")
    shade = next(shade for end, shade in _SHADES if cell.worst <= end)
    return _Shown(shade, f"{cell.known} known, {cell.share}" if cell.known else cell.share)
