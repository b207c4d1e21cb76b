"""How far a stage is, and durations as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from rich.cells import cell_len

from cpuwheels.core.units import format_size

GAP = "  "

_LEAST_DETAIL = 16
"""Columns below which a detail is left out instead of cut."""


@dataclass(frozen=True)
class Progress:
    """The progress of a stage.

    Attributes:
        done: Files (or bytes) finished.
        total: Files (or bytes) in all; 0 when not known yet.
        unit: ``files`` or ``bytes``.
        part: Done part of the work, from 0 to 1, where that is not the same as ``done`` of ``total``.
        memory: Resident bytes of the stage's processes now, or None.
        cap: Bytes that they may have together, or None.
        eta: Seconds still to go, or None.
        detail: What is being worked on, or was finished last.
        running: What is being worked on right now, and for how long; only a live view has room for it.
    """

    done: int
    total: int
    unit: str = "files"
    part: float | None = None
    memory: int | None = None
    cap: int | None = None
    eta: float | None = None
    detail: str = ""
    running: tuple[str, ...] = ()

    @property
    def fraction(self) -> float | None:
        """Done part of the work, from 0 to 1, or None if it is not known."""
        if self.part is None and self.total:
            return min(1.0, self.done / self.total)
        return self.part

    def text(self, elapsed: float, width: int | None = None) -> str:
        """Return the progress on one line, the most important first.

        Args:
            elapsed: Seconds since the stage began.
            width: Columns available for it, if they are limited; what does not fit is left out from the end,
                except for the first two.
        """
        important = [self.percent(), self.to_go()]
        others = [self.amount(), f"elapsed {clock(elapsed)}"]
        if self.memory is not None:
            others.append(f"memory {format_size(self.memory)}")
        line = GAP.join(filter(None, important))
        for part in filter(None, others):
            longer = f"{line}{GAP}{part}" if line else part
            if width is not None and line and cell_len(longer) > width:
                return line
            line = longer
        if not self.detail:
            return line
        if width is None or width - cell_len(line + GAP) >= min(cell_len(self.detail), _LEAST_DETAIL):
            line = f"{line}{GAP}{self.detail}"
        return line

    def percent(self) -> str:
        """Return the done part of the work, or nothing if it is not known."""
        return "" if self.fraction is None else f"{floor(100 * self.fraction + 1e-6)}%"

    def to_go(self) -> str:
        """Return how long it will still take, or nothing if it is not known."""
        return "" if self.eta is None else f"about {rough_clock(self.eta)} to go"

    def amount(self) -> str:
        """Return how much is done, or nothing if it is not known."""
        if self.unit == "bytes":
            whole = f" of {format_size(self.total)}" if self.total else ""
            return f"{format_size(self.done)}{whole}"
        return f"{self.done}/{self.total} {self.unit}" if self.total else ""


def rough_clock(seconds: float) -> str:
    """Return a duration like `clock`, but in whole seconds: an estimate is no finer, and a live view is calmer."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else clock(whole)  # noqa: PLR2004  (a minute)


def clock(seconds: float) -> str:
    """Return a duration as ``4.2 s``, ``3:07`` or ``1:02:03``."""
    if round(seconds, 1) < 60:  # noqa: PLR2004  (a minute)
        return f"{seconds:.1f} s"
    whole = int(max(seconds, 60))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
