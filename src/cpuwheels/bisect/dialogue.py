"""Questions to the person who sits at the terminal."""

from __future__ import annotations

import contextlib
import sys
import termios
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from cpuwheels.core.errors import StoppedError, UsageError
from cpuwheels.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

QUIT, RETRY = "quit", "retry"

_LONGEST_NOTE = 300


@dataclass(frozen=True)
class Answer:
    """What a person answered.

    Attributes:
        word: One of the words that were offered.
        note: What was written behind it.
    """

    word: str
    note: str = ""


class Dialogue:
    """Asks the person at the terminal.

    Args:
        stdin: Where answers come from; standard input if not given.
        console: Where questions are printed, also in a quiet run; standard error if not given.
    """

    def __init__(self, stdin: TextIO | None = None, console: Console | None = None) -> None:
        self._stdin = stdin or sys.stdin
        self.console = console or Console(stderr=True, highlight=False, markup=False)

    def show(self, text: str) -> None:
        """Print a sentence, in lines as long as the terminal has room for."""
        self.console.print(printable(text))

    def show_whole(self, line: str) -> None:
        """Print a line that is to be copied, and so is never broken, with empty lines around it."""
        self.console.print(f"\n    {printable(line)}\n", soft_wrap=True)

    def ask(self, about: str, words: Sequence[str]) -> Answer:
        """Ask until the answer is one of some words, or the beginning of one; what was typed before does not count.

        Args:
            about: What the question is about.
            words: The answers; `QUIT` is one more.

        Raises:
            StoppedError: The answer is `QUIT`, or the end of the input.
        """
        self._forget_what_was_typed()
        offered = [*words, QUIT]
        while True:
            self.console.print(f"{printable(about)}: {', '.join(words)} or {QUIT}?", end=" ", style="bold")
            answer = parse_answer(line := self._line(), offered)
            if answer is None:
                self._refuse(line)
                continue
            if answer.word == QUIT:
                raise StoppedError
            return answer

    def _refuse(self, line: str) -> None:
        """Say that an answer is none of the words; nothing typed needs no words."""
        if words := line.split():
            self.console.print(f"{printable(words[0])!r:.60} is none of these")

    def _line(self) -> str:
        """Return a line, or the word that ends it all where there is none any more."""
        try:
            return self._stdin.readline() or QUIT
        except OSError:  # the terminal is gone
            return QUIT

    def _forget_what_was_typed(self) -> None:
        with contextlib.suppress(OSError, ValueError, termios.error):
            termios.tcflush(self._stdin.fileno(), termios.TCIFLUSH)


def parse_answer(line: str, words: Sequence[str]) -> Answer | None:
    """Return what a line means: a word or its beginning, and a note behind it; None if it is none of the words."""
    first, _, note = line.strip().partition(" ")
    found = [word for word in words if first and word.startswith(first.lower())]
    if len(found) != 1:
        return None
    return Answer(found[0], printable(note.strip())[:_LONGEST_NOTE])


def open_dialogue() -> Dialogue:
    """Return a dialogue with the person at this process's terminal.

    Raises:
        UsageError: There is none.
    """
    streams = {"standard input": sys.stdin, "standard error": sys.stderr}
    if lacking := [name for name, stream in streams.items() if stream is None or not stream.isatty()]:
        raise UsageError(
            f"nobody can be asked for a verdict: {' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} "
            "no terminal",
            where="no --run, --parity, --bench or --serve, or a --prompt without --regress",
            next_step="let a program decide: a command with --run, an operator with --parity or --bench, a model with "
            "--serve, or --regress with --prompt; or start it in a terminal",
        )
    return Dialogue()
