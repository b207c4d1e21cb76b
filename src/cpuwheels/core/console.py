"""What the user sees of a run: stages with their times, a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from cpuwheels.core.live_view import LiveView, Stages, View
from cpuwheels.core.progress import Progress, clock
from cpuwheels.core.tables import print_wrapped
from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo
from cpuwheels.core.verbosity import is_quiet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PLAIN_INTERVAL = 30.0
"""Seconds between progress lines where there is no terminal."""


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
        self._live: LiveView | None = None
        self._progress: Progress | None = None
        self._stages = Stages()
        self._began = 0.0
        self._last_plain = 0.0

    def expect(self, names: Iterable[str]) -> None:
        """Tell which stages the run has, for a live view; one of them need not come."""
        self._stages.expect(names)

    @contextlib.contextmanager
    def stage(self, name: str, purpose: str) -> Iterator[None]:
        """Announce a stage, time it, and report how it ended."""
        self._began = time.monotonic()
        self._stages.begin(name)
        self._last_plain = self._began
        self._progress = None
        self._line(f"[bold]{name}[/bold]: {escape(purpose)}")
        try:
            with self._live_view():
                yield
        except BaseException:
            self._line(f"[red]{name} stopped[/red] after {clock(time.monotonic() - self._began)}")
            raise
        self.timings[name] = time.monotonic() - self._began
        self._stages.end(self.timings[name])
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

    @property
    def shows_progress(self) -> bool:
        """Whether progress told now is shown: where it takes work to know, it need not be known otherwise."""
        return self._live is not None or time.monotonic() - self._last_plain >= PLAIN_INTERVAL

    def progress(self, progress: Progress) -> None:
        """Show how far the stage is: live on a terminal, else every `PLAIN_INTERVAL` seconds."""
        self._progress = progress
        if self._live is None and self.shows_progress:
            self._last_plain = now = time.monotonic()
            self._progress_line(f"{self._stages.now}: {escape(printable(progress.text(now - self._began)))}")

    def download(self, name: str, done: int, total: int | None) -> None:
        """Show how far a download is."""
        self.progress(Progress(done, total or 0, unit="bytes", detail=name))

    @contextlib.contextmanager
    def _live_view(self) -> Iterator[None]:
        console = self.console
        if not _is_screen(console) or console.quiet or self._live is not None:
            yield
            return
        view = View(self.target, self._stages, self._began, lambda: self._progress)
        with LiveView(view, console) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    @staticmethod
    def _noted(message: str) -> str:
        return f"[bold yellow]NOTE[/bold yellow] {escape(message)}"

    def _line(self, markup: str) -> None:
        self._print(self.console, markup)

    def _progress_line(self, markup: str) -> None:
        self._line(markup)

    def _print(self, console: Console, markup: str) -> None:
        text = Text.from_markup(f"[cyan]\\[{escape(self.target)}][/cyan] {markup}")
        if _is_screen(console):
            print_wrapped(console, text, hanging=cell_len(f"[{self.target}] "))
        else:
            console.print(text, soft_wrap=True)


def _is_screen(console: Console) -> bool:
    """Return whether a person looks at it: with FORCE_COLOR rich takes a pipe, such as a log of CI, for a terminal."""
    return console.is_terminal and console.file.isatty() and not console.is_dumb_terminal


def _shown(message: str) -> str:
    return printable(without_userinfo(message))
