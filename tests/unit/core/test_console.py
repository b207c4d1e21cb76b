from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.text import Text

from cpuwheels.core.console import PLAIN_INTERVAL, Reporter
from cpuwheels.core.progress import Progress
from pseudo_terminal import TerminalText

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass at will."""
    now = 1000.0

    def pass_by(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("cpuwheels.core.console.time.monotonic", lambda: now)
    return pass_by


def test_a_stage_is_announced_and_timed(reporter: Reporter, story: io.StringIO, wait: Callable[[float], None]) -> None:
    with reporter.stage("source", "what [for]"):
        wait(61)
    assert story.getvalue() == "[test] source: what [for]\n[test] source done in 1:01\n"
    assert reporter.timings == {"source": 61}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_a_stage_that_stops_says_so(
    reporter: Reporter, story: io.StringIO, wait: Callable[[float], None], stop: type[BaseException]
) -> None:
    def work() -> None:
        with reporter.stage("source", "x"):
            wait(2)
            raise stop

    with pytest.raises(stop):
        work()
    assert story.getvalue().endswith("[test] source stopped after 2.0 s\n")
    assert reporter.timings == {}


def test_without_a_terminal_progress_is_told_at_intervals(
    reporter: Reporter, story: io.StringIO, wait: Callable[[float], None]
) -> None:
    with reporter.stage("kernels", "x"):
        for done in range(1, 101):
            wait(PLAIN_INTERVAL / 10)
            reporter.progress(Progress(done, 100))
    told = [line for line in story.getvalue().splitlines() if "/100 files" in line]
    assert len(told) == 10
    assert told[0] == "[test] kernels: 10%  10/100 files  elapsed 30.0 s"


def test_without_a_terminal_there_are_no_control_characters(reporter: Reporter, story: io.StringIO) -> None:
    with reporter.stage("kernels", "x"):
        reporter.progress(Progress(1, 2))
        reporter.announce("listen")
    assert all(character.isprintable() or character == "\n" for character in story.getvalue())


def test_on_a_terminal_progress_is_live_and_gone_afterwards() -> None:
    story = TerminalText()
    reporter = Reporter("test", Console(file=story, force_terminal=True, width=80, color_system=None))
    with reporter.stage("kernels", "x"):
        reporter.progress(Progress(1, 2, detail="[not markup] " + "long " * 50))
        assert reporter._live is not None
        reporter._live.refresh()
    assert "50%  1/2 files" in story.getvalue()
    assert "\x1b[2K" in story.getvalue()
    assert reporter._live is None


def test_a_terminal_that_cannot_go_back_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], None]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    story = TerminalText()
    reporter = Reporter("x86", Console(file=story, force_terminal=True, width=60, soft_wrap=True))
    with reporter.stage("kernels", "x"):
        wait(PLAIN_INTERVAL)
        reporter.progress(Progress(1, 2, eta=30))
    assert "[x86] kernels: 50%  about 30 s to go  1/2 files  elapsed 30.0 s\n" in story.getvalue()


def test_a_log_in_colours_gets_plain_lines(monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], None]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    story = io.StringIO()
    reporter = Reporter("x86", Console(file=story, width=60, color_system="standard", soft_wrap=True))
    with reporter.stage("kernels", "x"):
        wait(PLAIN_INTERVAL)
        reporter.progress(Progress(1, 2, eta=30))
    lines = [Text.from_ansi(line).plain for line in story.getvalue().splitlines()]
    assert lines[1] == "[x86] kernels: 50%  about 30 s to go  1/2 files  elapsed 30.0 s"
    assert "\x1b[2K" not in story.getvalue()


def test_messages_are_shown_letter_by_letter(reporter: Reporter, story: io.StringIO) -> None:
    reporter.info("a[bold]b[/bold] [/]")
    assert story.getvalue() == "[test] a[bold]b[/bold] [/]\n"


def test_announcements_are_kept_for_the_record(reporter: Reporter, story: io.StringIO) -> None:
    reporter.announce("one [of] two")
    reporter.info("not kept")
    assert reporter.announcements == ["one [of] two"]
    assert "NOTE one [of] two" in story.getvalue()


def test_a_download_is_progress_in_bytes(reporter: Reporter, story: io.StringIO, wait: Callable[[float], None]) -> None:
    with reporter.stage("source", "x"):
        wait(PLAIN_INTERVAL)
        reporter.download("the sdist", 1 << 20, None)
    assert "1 MiB  elapsed 30.0 s  the sdist" in story.getvalue()


def test_results_go_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    Reporter("test").info("for people")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "for people" in captured.err


def test_messages_show_no_credentials_and_nothing_that_a_terminal_obeys(reporter: Reporter, story: io.StringIO) -> None:
    reporter.info("a\x1b[2J\n of https://u:secret@host/")
    reporter.announce("b\u202e of https://u:secret@host/")
    assert reporter.announcements == ["b\\u202e of https://host/"]
    assert story.getvalue() == "[test] a\\x1b[2J\\n of https://host/\n[test] NOTE b\\u202e of https://host/\n"
