"""A program at a terminal of its own, whose screen is read and whose keys are typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import selectors
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING, Self

from pseudo_terminal import read_block

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[()][A-Z0-9])|\r")


class Terminal:
    """Runs a program at a terminal; a context, after which it has ended.

    Args:
        command: The program.
        env: Variables besides this process's.
        cwd: Its working folder.
        columns: Of the terminal.

    Attributes:
        process: The program, which leads the session of the terminal.
        screen: All that was printed, without what moves the cursor or changes colours.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        columns: int = 120,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command],  # util-linux's; it becomes the command
            env=os.environ | {"TERM": "xterm", "COLUMNS": str(columns)} | (env or {}),
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._raw = b""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def screen(self) -> str:
        return _ESCAPES.sub("", self._raw.decode(errors="replace"))

    def type(self, keys: str) -> None:
        """Type keys; ``\\x03`` is Ctrl-C and ``\\x04`` Ctrl-D."""
        os.write(self._master, keys.encode())

    def wait_for(self, pattern: str, seconds: float = 300) -> re.Match[str]:
        """Wait until something new on the screen matches, and return it; what is before it does not count any more."""
        end = time.monotonic() + seconds
        while True:
            found = re.compile(pattern).search(self.screen, self._seen)
            if found:
                self._seen = found.end()
                return found
            assert time.monotonic() < end, f"no {pattern!r} on the screen:\n{self.screen[self._seen :][-2000:]}"
            assert self._read(0.2), f"it ended without {pattern!r}:\n{self.screen}"

    def end(self, seconds: float = 120) -> int:
        """Wait for its end and return its exit status."""
        end = time.monotonic() + seconds
        while self._read(0.2):
            assert time.monotonic() < end, f"it does not end:\n{self.screen}"
        return self.process.wait(seconds)

    def _read(self, seconds: float) -> bool:
        """Take in what is printed; return whether there can be more."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._master, selectors.EVENT_READ)
            if not selector.select(seconds):
                return self.process.poll() is None
        block = read_block(self._master)
        self._raw += block
        return bool(block)
