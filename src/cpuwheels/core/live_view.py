"""What a terminal shows of the stage that runs: a few lines below everything else, drawn again as time passes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from cpuwheels.core.progress import GAP, Progress, rough_clock
from cpuwheels.core.text import printable
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult

_PER_SECOND = 2.0
_LEAST_COLUMNS, _LEAST_LINES = 50, 8
"""Of a terminal; a smaller one shows one line."""

_BAR_COLUMNS = (10, 30)
"""Least and most columns of a bar; in between it is a sixth of the terminal."""

_RIGHT = 3
"""Columns that stay free at the right: the ``^C`` that a terminal shows must not begin another row."""

_FULL = 0.9
"""Part of the cap from which memory is shown in another colour."""

_MARKS = {"done": ("✓", "+", "green"), "now": ("▸", ">", "bold cyan"), "coming": ("·", "-", "dim")}


@dataclass
class Stages:
    """The stages of a run.

    Attributes:
        done: Name → seconds, in their order.
        now: The one that runs.
        coming: Those that are expected after it.
    """

    done: dict[str, float] = field(default_factory=dict)
    now: str = ""
    coming: tuple[str, ...] = ()

    def expect(self, names: Iterable[str]) -> None:
        """Begin with a list of stages; one that does not come is left out when a later one begins."""
        self.done, self.coming = {}, tuple(names)

    def begin(self, name: str) -> None:
        """Note that a stage runs."""
        self.now = name
        if name in self.coming:
            self.coming = self.coming[self.coming.index(name) + 1 :]

    def end(self, seconds: float) -> None:
        """Note that the stage is done."""
        self.done.pop(self.now, None)
        self.done[self.now] = seconds


@dataclass
class View:
    """The lines of a stage; what changes is asked for each time they are drawn.

    Attributes:
        target: In front of the first line.
        stages: Of the run.
        began: When the stage began, by `time.monotonic`.
        progress: Returns how far it is, or None.
    """

    target: str
    stages: Stages
    began: float
    progress: Callable[[], Progress | None]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return what is drawn now."""
        elapsed, width = time.monotonic() - self.began, max(1, options.max_width - _RIGHT)
        progress = self.progress()
        if options.max_width < _LEAST_COLUMNS or console.size.height < _LEAST_LINES:
            head = f"[{self.target}] {self.stages.now}:"
            yield progress_line(head, progress or Progress(0, 0), elapsed, width)
            return
        lines = [stage_line(self.target, self.stages, elapsed, width, ascii_only=options.ascii_only)]
        yield Group(*lines, *(progress_lines(progress, width) if progress else ()))


def stage_line(target: str, stages: Stages, elapsed: float, width: int, *, ascii_only: bool) -> Text:
    """Return what is done, what runs and what comes, in as much detail as fits.

    Args:
        target: In front.
        stages: Of the run.
        elapsed: Seconds since the present one began.
        width: Columns.
        ascii_only: Whether marks are letters of ASCII.
    """

    def item(kind: str, text: str) -> Text:
        sign, letter, style = _MARKS[kind]
        return Text(f"{letter if ascii_only else sign} {printable(text)}", style=style)

    now = item("now", f"{stages.now} {rough_clock(elapsed)}")
    timed = [item("done", f"{name} {rough_clock(seconds)}") for name, seconds in stages.done.items()]
    done = [item("done", name) for name in stages.done]
    count = [item("done", f"{len(done)} stages")] if len(done) > 1 else done
    coming = [item("coming", name) for name in stages.coming]
    more = [item("coming", f"{len(coming)} more")] if len(coming) > 1 else coming
    head = Text.assemble((f"[{printable(target)}]", "cyan"), " ")
    choices = [[*timed, now, *coming], [*done, now, *coming], [*count, now, *coming], [*count, now, *more], [now]]
    lines = [head + Text(GAP).join(items) for items in choices]
    line = next((line for line in lines if cell_len(line.plain) <= width), lines[-1])
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line


def progress_lines(progress: Progress, width: int) -> list[RenderableType]:
    """Return how far a stage is: a bar, the memory as a part of its cap, and what is being worked on."""
    bar = max(_BAR_COLUMNS[0], min(_BAR_COLUMNS[1], width // 6))
    lines: list[RenderableType] = []
    parts = [progress.percent(), progress.to_go(), progress.amount()]
    if progress.fraction is not None:
        lines.append(_barred("done", progress.fraction, "cyan", parts, bar, width))
    elif shown := GAP.join(filter(None, parts)):
        lines.append(_cut(f"  {shown}", width))
    if progress.memory is not None and progress.cap:
        used = progress.memory / progress.cap
        parts = [f"{format_size(progress.memory)} of {format_size(progress.cap)}"]
        lines.append(_barred("memory", min(1.0, used), "yellow" if used >= _FULL else "blue", parts, bar, width))
    elif progress.memory is not None:
        lines.append(_cut(f"  memory  {format_size(progress.memory)}", width))
    if shown := ", ".join(progress.running) or progress.detail:
        lines.append(_cut(f"  {shown}", width, style="dim"))
    return lines


def _barred(name: str, part: float, style: str, words: Sequence[str], bar: int, width: int) -> RenderableType:
    line = Table.grid(padding=(0, 2, 0, 0))
    shown = ProgressBar(1.0, part, bar, complete_style=style, finished_style=style)
    text = ""
    for word in filter(None, words):  # the last ones are left out first
        longer = f"{text}{GAP}{word}" if text else word
        if text and cell_len(longer) > width - bar - 12:  # two spaces, "memory", and two gaps
            break
        text = longer
    line.add_row(Text(f"  {name:<6}"), shown, _cut(text, max(1, width - bar - 12)))
    return line


def _cut(text: str, width: int, style: str = "") -> Text:
    line = Text(printable(text), style=style, no_wrap=True)
    line.truncate(width, overflow="ellipsis")
    return line


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
        return _cut(f"{head} {progress.text(elapsed, room)}", width)
    line = Table.grid(padding=(0, 1))
    shown = ProgressBar(1.0, progress.fraction, bar, complete_style="cyan")
    line.add_row(_cut(head, width), shown, _cut(progress.text(elapsed, room_for_text), room_for_text))
    return line


class LiveView(Live):
    """Draws a view below everything else until it is stopped; nothing of it is left then.

    A terminal that has become narrower has divided the rows that no longer fit. They are counted as they are now, so
    that nothing of the last drawing is left behind; a terminal that cuts rows is left out.

    Args:
        view: What is drawn.
        console: The terminal.
        environ: Its description.
    """

    def __init__(self, view: View, console: Console, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(get_renderable=lambda: view, console=console, transient=True, refresh_per_second=_PER_SECOND)
        self._divides = divides_rows(os.environ if environ is None else environ)
        self._drawn = _Drawn()

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return what is written: back to the first row of the last drawing, the messages, and the new drawing."""
        *found, drawing = super().process_renderables(renderables)
        if self._divides and self._drawn.lengths and self.console.width < max(self._drawn.lengths):
            found[0] = _back(self._drawn.rows(self.console.width))
        self._drawn = _Drawn(drawing)
        return [*found, self._drawn]


@dataclass
class _Drawn:
    """A drawing that keeps how long its lines were."""

    drawing: ConsoleRenderable | None = None
    lengths: list[int] = field(default_factory=list)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        segments = list(console.render(self.drawing, options)) if self.drawing else []
        lines = Segment.split_lines(segments)
        self.lengths = [sum(cell_len(segment.text) for segment in line if not segment.control) for line in lines]
        yield from segments

    def rows(self, width: int) -> int:
        """Return how many rows a terminal of some width has divided the lines into."""
        return sum(max(1, -(-length // width)) for length in self.lengths)


def divides_rows(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal that becomes narrower divides its rows; xterm, screen and Linux's console cut them."""
    kind = environ.get("TERM", "")
    return not (kind == "linux" or "XTERM_VERSION" in environ or (kind.startswith("screen") and "TMUX" not in environ))


def _back(rows: int) -> Control:
    up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
    return Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *up * (rows - 1))
