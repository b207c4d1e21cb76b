"""Questions to the person at a terminal."""

from __future__ import annotations

import io
import os
import pty
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

import pytest
from rich.console import Console

from cpuwheels.bisect.dialogue import Answer, Dialogue, open_dialogue, parse_answer
from cpuwheels.core.errors import StoppedError, UsageError

WORDS = ("good", "bad", "skip", "retry", "quit")
PATIENCE = 20.0


class Terminal:
    """A terminal with somebody who types when they are asked.

    Attributes:
        stdin: What the asking program reads.
        screen: What it has printed.
    """

    def __init__(self) -> None:
        self._keys, program = pty.openpty()
        self.stdin: TextIO = os.fdopen(program)
        self.screen = io.StringIO()
        self.dialogue = Dialogue(self.stdin, Console(file=self.screen, width=60, highlight=False, markup=False))

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    def type_at_question(self, text: str) -> None:
        """Type as soon as a question is on the screen, in a thread of its own."""

        def work() -> None:
            end = time.monotonic() + PATIENCE
            while "?" not in self.screen.getvalue() and time.monotonic() < end:
                time.sleep(0.01)
            self.type(text)

        threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        self.stdin.close()
        os.close(self._keys)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("good\n", Answer("good")),
        ("  BAD \n", Answer("bad")),
        ("s", Answer("skip")),
        ("re\n", Answer("retry")),
        ("q\n", Answer("quit")),
        ("bad the third line is empty\n", Answer("bad", "the third line is empty")),
        ("bad \x1b[31mred\x07\n", Answer("bad", "\\x1b[31mred\\x07")),
        (f"bad {'x' * 400}\n", Answer("bad", "x" * 300)),
        ("\n", None),
        ("back\n", None),
        ("goodness\n", None),
        ("yes\n", None),
    ],
)
def test_an_answer_is_a_word_or_its_beginning(line: str, answer: Answer | None) -> None:
    assert parse_answer(line, WORDS) == answer


def test_a_beginning_of_two_words_is_no_answer() -> None:
    assert parse_answer("s", ("skip", "stop")) is None


def test_it_asks_until_it_is_answered(terminal: Terminal) -> None:
    terminal.type_at_question("maybe\n\nb wrong\n")
    assert terminal.dialogue.ask("Verdict on 123", ("good", "bad")) == Answer("bad", "wrong")
    assert terminal.screen.getvalue().count("Verdict on 123: good, bad or quit?") == 3


def test_an_answer_that_is_no_word_is_told(terminal: Terminal) -> None:
    terminal.type_at_question("gppd\n\nbad\n")
    assert terminal.dialogue.ask("Verdict", ("good", "bad")).word == "bad"
    assert terminal.screen.getvalue().count("is none of these") == 1
    assert "'gppd' is none of these" in terminal.screen.getvalue()


def test_what_was_typed_before_the_question_is_no_answer(terminal: Terminal) -> None:
    terminal.type("good\n")
    terminal.type_at_question("bad\n")
    assert terminal.dialogue.ask("Verdict", ("good", "bad")).word == "bad"


@pytest.mark.parametrize("keys", ["quit\n", "\x04"], ids=["quit", "end of input"])
def test_quit_ends_it(terminal: Terminal, keys: str) -> None:
    terminal.type_at_question(keys)
    with pytest.raises(StoppedError, match="stopped") as raised:
        terminal.dialogue.ask("Verdict", ("good", "bad"))
    assert "run the same command again" in str(raised.value)


def test_a_terminal_that_is_gone_ends_it(terminal: Terminal) -> None:
    class Gone(io.StringIO):
        def readline(self, *_: object) -> str:
            raise OSError(5, "Input/output error")

    with pytest.raises(StoppedError):
        Dialogue(Gone(), terminal.dialogue.console).ask("Verdict", ("good",))


def test_what_is_to_be_copied_is_on_one_line(terminal: Terminal) -> None:
    terminal.dialogue.show("word " * 20)
    terminal.dialogue.show_whole("/a/long/path" * 10)
    lines = terminal.screen.getvalue().splitlines()
    assert "    " + "/a/long/path" * 10 in lines
    assert all(len(line) <= 60 for line in lines if line.startswith("word"))


@pytest.mark.parametrize(
    ("ttys", "words"),
    [
        ((False, True), "standard input is no terminal"),
        ((True, False), "standard error is no terminal"),
        ((False, False), "standard input and standard error are no terminal"),
    ],
)
def test_without_a_terminal_the_error_says_what_to_give(
    monkeypatch: pytest.MonkeyPatch, ttys: tuple[bool, bool], words: str
) -> None:
    for name, there in zip(("stdin", "stderr"), ttys, strict=True):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda there=there: there, raising=False)
    with pytest.raises(UsageError, match=words) as raised:
        open_dialogue()
    assert "--run" in raised.value.next_step
    assert "--prompt" in raised.value.where


def test_with_a_terminal_there_is_a_dialogue(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True, raising=False)
    assert isinstance(open_dialogue(), Dialogue)
