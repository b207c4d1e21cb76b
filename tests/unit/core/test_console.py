from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console, Group
from rich.text import Text

from cpuwheels.core.console import PLAIN_INTERVAL, Progress, Reporter, clock, progress_line

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
        (0, "0.0 s"),
        (4.24, "4.2 s"),
        (59.94, "59.9 s"),
        (59.96, "1:00"),
        (60, "1:00"),
        (187.9, "3:07"),
        (3599.9, "59:59"),
        (3600, "1:00:00"),
        (3723, "1:02:03"),
        (90000, "25:00:00"),
    ],
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(3, 10), "30%  3/10 files  elapsed 5.0 s"),
        (Progress(3, 10, eta=61), "30%  about 1:01 to go  3/10 files  elapsed 5.0 s"),
        (Progress(3, 10, memory=3 << 30, detail="a.cpp"), "30%  3/10 files  elapsed 5.0 s  memory 3 GiB  a.cpp"),
        (Progress(1 << 20, 45 << 20, unit="bytes"), "2%  1 MiB of 45 MiB  elapsed 5.0 s"),
        (Progress(3, 10, part=0.29, eta=59.2), "29%  about 59 s to go  3/10 files  elapsed 5.0 s"),
        (Progress(9, 10, part=0.9999, eta=59.6), "99%  about 1:00 to go  9/10 files  elapsed 5.0 s"),
        (Progress(0, 10, part=0), "0%  0/10 files  elapsed 5.0 s"),
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
    assert told[0] == "[test] kernels: 10%  10/100 files  elapsed 30.0 s"


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
    assert "50%  1/2 files" in story.getvalue()
    assert "\x1b[2K" in story.getvalue()
    assert reporter._live is None


LATE = Progress(
    138, 328, part=0.43, memory=3 << 30, eta=2066, detail="jit_avx512_core_u8_copy_sum_bn_kern_autogen.cpp.o"
)
ABOUT = "about 34:26 to go  138/328 files  elapsed 12:10  memory 3 GiB"


def live_line(console: Console, progress: Progress, target: str = "x86") -> str:
    with console.capture() as captured:
        console.print(Group(progress_line(f"[{target}] kernels:", progress, 730, console.width)))
    (line,) = captured.get().splitlines()
    assert cell_len(Text.from_ansi(line).plain) <= console.width
    return line.rstrip()


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (30, "[x86] kernels: 43%  about 34:…"),
        (40, "[x86] kernels: 43%  about 34:26 to go"),
        (60, "[x86] kernels: ━━━━╺━━━━━ 43%  about 34:26 to go"),
        (80, "[x86] kernels: ━━━━━╸━━━━━━━ 43%  about 34:26 to go  138/328 files"),
        (120, f"[x86] kernels: ━━━━━━━━╸━━━━━━━━━━━ 43%  {ABOUT}  jit_avx512_core…"),
        (130, f"[x86] kernels: ━━━━━━━━━╺━━━━━━━━━━━ 43%  {ABOUT}  jit_avx512_core_u8_copy_…"),
        (170, f"[x86] kernels: ━━━━━━━━━━━━╺━━━━━━━━━━━━━━━ 43%  {ABOUT}  {LATE.detail}"),
    ],
)
def test_what_matters_least_is_cut_first(width: int, line: str) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    assert Text.from_ansi(live_line(console, LATE)).plain == line


def test_without_colours_the_bar_shows_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    line = live_line(Console(file=io.StringIO(), force_terminal=True, width=60), LATE)
    assert line == "[x86] kernels: ━━━━       43%  about 34:26 to go"


def test_on_a_terminal_of_ascii_letters_the_bar_is_of_those() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    line = live_line(Console(file=file, force_terminal=True, width=60, color_system=None), LATE)
    assert line.isascii()
    assert "43%  about 34:26 to go" in line


def test_where_nothing_is_known_of_the_whole_there_is_no_bar() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    line = live_line(console, Progress(1 << 20, 0, unit="bytes", detail="the sdist"))
    assert line == "[x86] kernels: 1 MiB  elapsed 12:10  the sdist"


def test_a_long_name_of_the_target_leaves_room_for_percent_and_time() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    assert live_line(console, LATE, "x86 0123456789ab") == "[x86 0123456789ab] kernels: 43%  about 34:26 to go"


def test_a_terminal_that_cannot_go_back_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], None]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    story = io.StringIO()
    reporter = Reporter("x86", Console(file=story, force_terminal=True, width=60, soft_wrap=True))
    with reporter.stage("kernels", "x"):
        wait(PLAIN_INTERVAL)
        reporter.progress(Progress(1, 2, eta=30))
    assert "[x86] kernels: 50%  about 30 s to go  1/2 files  elapsed 30.0 s\n" in story.getvalue()


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
