"""What the user sees of a run: stages with their times, a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cpuwheels.core.text import printable
from cpuwheels.core.units import format_size
from cpuwheels.core.urls import without_userinfo
from cpuwheels.core.verbosity import is_quiet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

PLAIN_INTERVAL = 30.0
"""Seconds between progress lines where there is no terminal."""

_GAP = "  "

_BAR_COLUMNS = (10, 30)
"""Least and most columns of a bar; in between it is a sixth of the terminal."""

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
        eta: Seconds still to go, or None.
        detail: What is being worked on.
    """

    done: int
    total: int
    unit: str = "files"
    part: float | None = None
    memory: int | None = None
    eta: float | None = None
    detail: str = ""

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
        important = [self._percent(), "" if self.eta is None else f"about {_rough_clock(self.eta)} to go"]
        others = [self._amount(), f"elapsed {clock(elapsed)}"]
        if self.memory is not None:
            others.append(f"memory {format_size(self.memory)}")
        line = _GAP.join(filter(None, important))
        for part in filter(None, others):
            longer = f"{line}{_GAP}{part}" if line else part
            if width is not None and line and cell_len(longer) > width:
                return line
            line = longer
        if not self.detail:
            return line
        if width is None or width - cell_len(line + _GAP) >= min(cell_len(self.detail), _LEAST_DETAIL):
            line = f"{line}{_GAP}{self.detail}"
        return line

    def _percent(self) -> str:
        return "" if self.fraction is None else f"{floor(100 * self.fraction + 1e-6)}%"

    def _amount(self) -> str:
        if self.unit == "bytes":
            whole = f" of {format_size(self.total)}" if self.total else ""
            return f"{format_size(self.done)}{whole}"
        return f"{self.done}/{self.total} {self.unit}" if self.total else ""


class Reporter:
    """Prints the messages of a run for one target.

    Args:
        target: Id shown in front of every line, so that parallel targets can be told apart.
        console: Where to write; standard error by default, so that results can go to standard output; nothing
            is written there if the run is quiet.
    """

    def __init__(self, target: str, console: Console | None = None) -> None:
        self.target = target
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True, quiet=is_quiet())
        self.timings: dict[str, float] = {}
        self.announcements: list[str] = []
        self._live: Live | None = None
        self._progress: Progress | None = None
        self._stage = ""
        self._began = 0.0
        self._last_plain = 0.0

    @contextlib.contextmanager
    def stage(self, name: str, purpose: str) -> Iterator[None]:
        """Announce a stage, time it, and report how it ended."""
        self._stage, self._began = name, time.monotonic()
        self._last_plain = self._began
        self._progress = None
        self._line(f"[bold]{name}[/bold]: {escape(purpose)}")
        try:
            with self._live_line():
                yield
        except BaseException:
            self._line(f"[red]{name} stopped[/red] after {clock(time.monotonic() - self._began)}")
            raise
        self.timings[name] = time.monotonic() - self._began
        self._line(f"[green]{name} done[/green] in {clock(self.timings[name])}")

    def info(self, message: str) -> None:
        """Print something worth knowing."""
        self._line(escape(_shown(message)))

    def announce(self, message: str) -> None:
        """Print something that must not be missed; it also goes into the build record."""
        message = _shown(message)
        self.announcements.append(message)
        self._line(self._noted(message))

    def summary(self, lines: Sequence[str]) -> None:
        """Print the result of a run; only the first line begins with the target, so that the others can be copied."""
        first, *others = lines
        self._line(f"[bold green]{escape(first)}[/bold green]")
        for line in others:
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        """Show how far the stage is: live on a terminal, else every `PLAIN_INTERVAL` seconds."""
        self._progress = progress
        now = time.monotonic()
        if self._live is None and now - self._last_plain >= PLAIN_INTERVAL:
            self._last_plain = now
            self._progress_line(f"{self._stage}: {escape(printable(progress.text(now - self._began)))}")

    def download(self, name: str, done: int, total: int | None) -> None:
        """Show how far a download is."""
        self.progress(Progress(done, total or 0, unit="bytes", detail=name))

    @contextlib.contextmanager
    def _live_line(self) -> Iterator[None]:
        if not self.console.is_terminal or self.console.is_dumb_terminal or self._live is not None:
            yield
            return
        with Live(get_renderable=self._now, console=self.console, transient=True, refresh_per_second=4) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def _now(self) -> RenderableType:
        """Return the live line: time goes on in it even while nothing reports progress."""
        progress, elapsed = self._progress or Progress(0, 0), time.monotonic() - self._began
        return progress_line(f"[{self.target}] {self._stage}:", progress, elapsed, self.console.width)

    @staticmethod
    def _noted(message: str) -> str:
        return f"[bold yellow]NOTE[/bold yellow] {escape(message)}"

    def _line(self, markup: str) -> None:
        self._print(self.console, markup)

    def _progress_line(self, markup: str) -> None:
        self._line(markup)

    def _print(self, console: Console, markup: str) -> None:
        console.print(f"[cyan]\\[{escape(self.target)}][/cyan] {markup}")


def progress_line(head: str, progress: Progress, elapsed: float, width: int) -> RenderableType:
    """Return one line of a terminal: with a bar if the whole is known and percent and time fit next to it.

    Args:
        head: What it begins with.
        progress: Shown behind it.
        elapsed: Seconds since the stage began.
        width: Columns of the terminal.
    """
    least, most = _BAR_COLUMNS
    bar = max(least, min(most, width // 6))
    room = width - cell_len(head) - 1
    room_for_text = room - bar - 1
    if progress.fraction is None or cell_len(progress.text(elapsed, 0)) > room_for_text:
        return _one_line(f"{head} {progress.text(elapsed, room)}")
    line = Table.grid(padding=(0, 1))
    shown = ProgressBar(1.0, progress.fraction, bar, complete_style="cyan")
    line.add_row(_one_line(head), shown, _one_line(progress.text(elapsed, room_for_text)))
    return line


def _shown(message: str) -> str:
    return printable(without_userinfo(message))


def _one_line(text: str) -> Text:
    return Text(printable(text), overflow="ellipsis", no_wrap=True)


def _rough_clock(seconds: float) -> str:
    """Return an estimated duration: like `clock`, but in whole seconds, since an estimate is no finer."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else clock(whole)  # noqa: PLR2004  (a minute)


def clock(seconds: float) -> str:
    """Return a duration as ``4.2 s``, ``3:07`` or ``1:02:03``."""
    if round(seconds, 1) < 60:  # noqa: PLR2004  (a minute)
        return f"{seconds:.1f} s"
    whole = int(max(seconds, 60))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
