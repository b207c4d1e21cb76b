"""A command that is asked one line at a time, and answers each with one."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import time
from typing import TYPE_CHECKING

from cpuwheels.core.errors import CommandError
from cpuwheels.core.fork_server import StartError
from cpuwheels.core.supervised import start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_BLOCK = 1 << 16
_LONGEST = 16 << 20
"""Bytes of an answer."""


class Conversation:
    """A command that is asked one line at a time, and answers each with one.

    Args:
        argv: The command; never passed to a shell.
        env: The whole environment.
        stderr: Descriptor that it writes its errors to.

    Raises:
        CommandError: The program is not there.
    """

    def __init__(self, argv: Sequence[str | Path], *, env: Mapping[str, str], stderr: int) -> None:
        command = [str(part) for part in argv]
        stdin, self._questions = os.pipe()
        self._answers, stdout = os.pipe()
        self._rest = b""
        try:
            self.child = start(
                command, env=env, stdin=stdin, stdout=stdout, stderr=stderr, outputs=[self._answers], grace=0
            )
        except StartError as error:
            os.close(self._questions)
            os.close(self._answers)
            raise CommandError(f"cannot start {command[0]}: {error.strerror}", where=shlex.join(command)) from error
        finally:
            os.close(stdin)
            os.close(stdout)

    def ask(self, question: str) -> None:
        """Write a line; if nobody reads it, the missing answer says so."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._questions, f"{question}\n".encode())

    def answer(self, seconds: float) -> str:
        """Return a line, without its end; empty if the command has ended.

        Args:
            seconds: How long to wait for it.

        Raises:
            TimeoutError: It did not come in time.
            ValueError: It has no end.
        """
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError
                block = os.read(self._answers, _BLOCK)
                if not block:
                    return ""
                self._rest += block
                if len(self._rest) > _LONGEST:
                    raise ValueError(f"a line of more than {_LONGEST >> 20} MiB")
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    def close(self) -> None:
        """End the command; nothing of it is left afterwards, and nothing happens the second time."""
        if self._questions >= 0:
            os.close(self._questions)
            self._questions = -1
            self.child.close(self._answers)
