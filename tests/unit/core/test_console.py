from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cpuwheels.core.console import PLAIN_INTERVAL, Progress, Reporter, clock

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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"), (4.24, "4.2 s"), (59.94, "59.9 s"), (59.96, "1:00"), (60, "1:00"), (187.9, "3:07"),
        (3599.9, "59:59"), (3600, "1:00:00"), (3723, "1:02:03"), (90000, "25:00:00"),
    ],
)  # fmt: skip
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(3, 10), "3/10 files  elapsed 5.0 s"),
        (Progress(3, 10, eta=61), "3/10 files  elapsed 5.0 s  about 1:01 to go"),
        (Progress(3, 10, memory=3 << 30, detail="a.cpp"), "3/10 files  elapsed 5.0 s  memory 3 GiB  a.cpp"),
        (Progress(1 << 20, 45 << 20, unit="bytes"), "1 MiB of 45 MiB  elapsed 5.0 s"),
        (Progress(1 << 20, 0, unit="bytes"), "1 MiB  elapsed 5.0 s"),
        (Progress(0, 0), "elapsed 5.0 s"),
    ],
)
def test_progress_on_one_line(progress: Progress, text: str) -> None:
    assert progress.text(5) == text


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
    assert told[0] == "[test] kernels: 10/100 files  elapsed 30.0 s"


def test_without_a_terminal_there_are_no_control_characters(reporter: Reporter, story: io.StringIO) -> None:
    with reporter.stage("kernels", "x"):
        reporter.progress(Progress(1, 2))
        reporter.announce("listen")
    assert all(character.isprintable() or character == "\n" for character in story.getvalue())


def test_on_a_terminal_progress_is_live_and_gone_afterwards() -> None:
    story = io.StringIO()
    reporter = Reporter("test", Console(file=story, force_terminal=True, width=80, color_system=None))
    with reporter.stage("kernels", "x"):
        reporter.progress(Progress(1, 2, detail="[not markup] " + "long " * 50))
        assert reporter._live is not None
        reporter._live.refresh()
    assert "[test] kernels: 1/2 files" in story.getvalue()
    assert "\x1b[2K" in story.getvalue()
    assert reporter._live is None


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
