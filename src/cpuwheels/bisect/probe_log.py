"""What the terminal shows of one commit's test: a live view, and each important message once. A file has all of it."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Console

from cpuwheels.core.console import Reporter
from cpuwheels.core.filesystem import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = "probe.log"


class ProbeReporter(Reporter):
    """Writes everything about a commit's test into a file.

    The terminal shows a live view, or else a line of progress from time to time; and each announcement, unless it was
    made for an earlier commit.

    Args:
        target: Shown in front of every line.
        console: The terminal.
        log: The file.
        announced: What was announced before; new announcements are added.
        live: Whether there may be a live view; a terminal has room for one.
    """

    def __init__(self, target: str, console: Console, log: Console, announced: set[str], *, live: bool) -> None:
        super().__init__(target, console)
        self._log, self._announced, self._may_be_live = log, announced, live

    def announce(self, message: str) -> None:
        """Log something that must not be missed, and print it on the terminal if it is new."""
        super().announce(message)
        if message not in self._announced:
            self._announced.add(message)
            self._print(self.console, self._noted(message))

    @contextmanager
    def _live_view(self) -> Iterator[None]:
        with super()._live_view() if self._may_be_live else nullcontext():
            yield

    def _line(self, markup: str) -> None:
        self._print(self._log, markup)

    def _progress_line(self, markup: str) -> None:
        super()._progress_line(markup)
        self._print(self.console, markup)


@contextmanager
def probe_story(
    target: str, console: Console, folder: Path, announced: set[str], *, live: bool = True
) -> Iterator[ProbeReporter]:
    """Yield a reporter that adds to a folder's `LOG`.

    Raises:
        StoreError: It cannot be written.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOG).open("a", encoding="utf-8") as file:
            log = Console(file=file, highlight=False, soft_wrap=True, force_terminal=False, no_color=True)
            yield ProbeReporter(target, console, log, announced, live=live)
