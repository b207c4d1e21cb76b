"""A terminal without a window: what a program prints, as a person would see it at some width."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyte
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

WIDTHS = (60, 80, 100, 140)
"""Columns that each table is tested with."""

_PATIENCE = 60.0


def read_block(master: int) -> bytes:
    """Wait for what is printed on a terminal; return nothing once no program has it open and all was read.

    Linux looks for text first and for an end second. What is printed between these two and followed by the end is
    still there when the end was told: hence it is asked twice.
    """
    for _ in range(2):
        with contextlib.suppress(OSError):  # EIO: no program has it open any more
            return os.read(master, 1 << 16)
    return b""


class PseudoTerminal:
    """A pseudo-terminal, and the screen that its output makes.

    Args:
        columns: Width.
        lines: Height; what scrolls out of it is kept in `history`.
    """

    def __init__(self, columns: int, lines: int = 500) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.01)
        self.raw = b""
        self._stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        self._master, self.slave = pty.openpty()
        self._set_size(columns, lines)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def rows(self) -> list[str]:
        """What is on the screen, without the spaces at the ends of rows and the empty rows at its end."""
        with self._lock:
            return _trimmed(self.screen.display)

    @property
    def story(self) -> list[str]:
        """What scrolled out of the screen, and what is on it."""
        with self._lock:
            above = ["".join(row[x].data for x in range(self.screen.columns)) for row in self.screen.history.top]
            return _trimmed([*above, *self.screen.display])

    @property
    def lines(self) -> list[str]:
        """What was printed up to each line end, however long, without colours."""
        return [Text.from_ansi(line).plain for line in self.raw.decode().splitlines()]

    @property
    def cursor_is_shown(self) -> bool:
        """Whether the cursor can be seen."""
        return not self.screen.cursor.hidden

    @property
    def settings(self) -> list[object]:
        """What `termios.tcgetattr` says: echo, line mode and so on."""
        return termios.tcgetattr(self.slave)

    def resize(self, columns: int, lines: int | None = None) -> None:
        """Make it wider or narrower; rows that are too long then are divided, as most terminals do."""
        lines = lines or self.screen.lines
        with self._lock:
            _reflow(self.screen, columns, lines)
        self._set_size(columns, lines)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.wait_until(lambda: any(text in row for row in self.rows), text)

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until something is true."""
        end = time.monotonic() + _PATIENCE
        while not true():
            assert time.monotonic() < end, f"{what!r} never came:\n" + "\n".join(self.rows)
            time.sleep(0.02)

    def close(self) -> None:
        """Read what is left, and close it."""
        os.close(self.slave)
        self._reader.join(_PATIENCE)
        os.close(self._master)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self) -> None:
        while block := read_block(self._master):
            with self._lock:
                self.raw += block
                self._stream.feed(block)


def _trimmed(rows: Sequence[str]) -> list[str]:
    found = [row.rstrip() for row in rows]
    while found and not found[-1]:
        found.pop()
    return found


def _reflow(screen: pyte.Screen, columns: int, lines: int) -> None:
    """Give a screen another size and keep its text: a row that is longer than the new width becomes several.

    That is what VTE, tmux, kitty and others do; pyte itself would cut the rows.
    """
    old, cursor = [row.rstrip() for row in screen.display], screen.cursor.y
    new: list[str] = []
    for number, row in enumerate(old[: cursor + 1]):
        parts = [row[start : start + columns] for start in range(0, len(row), columns)] or [""]
        new += parts
        if number == cursor:
            x = screen.cursor.x % columns if screen.cursor.x else 0
    assert len(new) <= lines, "the test's screen is too small"
    screen.resize(lines, columns)
    screen.erase_in_display(2)
    for number, row in enumerate(new):
        screen.cursor_position(number + 1, 1)
        screen.draw(row)
    screen.cursor_position(len(new), x + 1)


class TerminalText(io.StringIO):
    """Keeps what is written to it, and says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def pseudo_terminal(columns: int, lines: int = 500) -> Iterator[PseudoTerminal]:
    """Yield a terminal; it is closed afterwards."""
    terminal = PseudoTerminal(columns, lines)
    try:
        yield terminal
    finally:
        with contextlib.suppress(OSError):
            terminal.close()


def printed(show: Callable[[Console], object], columns: int) -> PseudoTerminal:
    """Return a terminal after something was printed on it."""
    terminal = PseudoTerminal(columns)
    with open(terminal.slave, "w", encoding="utf-8", closefd=False) as file:
        show(Console(file=file, width=columns, highlight=False))
    terminal.close()
    return terminal


@contextlib.contextmanager
def program(
    terminal: PseudoTerminal, command: Sequence[str | Path], environ: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program on a terminal, which is its controlling one, so that Ctrl-C reaches it."""
    name = os.ttyname(terminal.slave)
    # A session's first open of a terminal makes it the controlling one.
    argv = ["/bin/sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', name, *map(str, command)]
    process = subprocess.Popen(argv, start_new_session=True, env=dict(environ))
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
