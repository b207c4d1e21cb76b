"""The view of a running stage on terminals of several sizes, while they change, and when it is interrupted."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console, Group
from rich.text import Text

from cpuwheels.core.console import Reporter
from cpuwheels.core.live_view import Stages, divides_rows, progress_line, stage_line
from cpuwheels.core.progress import Progress
from pseudo_terminal import WIDTHS, PseudoTerminal, TerminalText, program, pseudo_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30
LATE = Progress(
    138,
    328,
    part=0.43,
    memory=3 * GIB,
    cap=6 * GIB,
    eta=2066,
    detail="done_last.cpp.o",
    running=("cpu_attn.cpp.o 2:10", "a_file_with_quite_a_long_name_for_a_terminal_of_sixty_columns.cpp.o 40 s"),
)
EXPECTED = ("release", "source", "toolchain", "environment", "onednn", "kernels", "wheel", "install check")


class Run:
    """A build on a terminal, as far as a person sees it."""

    def __init__(self, terminal: PseudoTerminal, file: io.TextIOBase, width: int, height: int) -> None:
        self.terminal = terminal
        self.console = Console(file=file, width=width, height=height, highlight=False, soft_wrap=True)
        self.reporter = Reporter("x86", self.console)
        self.marks = 0

    def draw(self) -> None:
        """Draw now, and wait until it is seen."""
        live = self.reporter._live
        assert live is not None
        live.refresh()
        self.seen()

    def seen(self) -> None:
        """Wait until all that was written is on the screen."""
        self.marks += 1
        mark = f"\x1b]2;{self.marks}\x07"
        self.console.file.write(mark)
        self.console.file.flush()
        self.terminal.wait_until(lambda: mark.encode() in self.terminal.raw, "the mark")

    def resize(self, width: int) -> None:
        live = self.reporter._live
        assert live is not None
        with live._lock:
            self.seen()
            self.terminal.resize(width)
            self.console.width = width


@contextlib.contextmanager
def running(width: int, height: int = 40) -> Iterator[Run]:
    with pseudo_terminal(width, height) as terminal, open(terminal.slave, "w", encoding="utf-8", closefd=False) as file:
        yield Run(terminal, file, width, height)


@contextlib.contextmanager
def compiling(width: int, height: int = 40) -> Iterator[Run]:
    """A build whose kernels are compiled, with the view drawn."""
    with running(width, height) as run:
        run.reporter.expect(EXPECTED)
        for name in ("source", "environment"):
            with run.reporter.stage(name, "what it is for"):
                pass
        with run.reporter.stage("kernels", "modules"):
            run.reporter.progress(LATE)
            run.draw()
            yield run


def view(rows: list[str]) -> list[str]:
    """The rows from the line with the stages on."""
    start = max(number for number, row in enumerate(rows) if "▸ kernels" in row)
    return rows[start:]


@pytest.mark.parametrize("width", WIDTHS)
def test_stages_a_bar_and_memory_against_the_cap(width: int) -> None:
    with compiling(width) as run:
        stages, bar, memory, files = view(run.terminal.rows)
        assert max(map(len, run.terminal.rows)) <= width - 3
    assert stages.startswith("[x86] ✓ ")
    assert "▸ kernels 0 s" in stages
    assert bar.startswith("  done    ━━━━")
    assert "43%  about 34:26 to go" in bar
    assert ("138/328 files" in bar) == (width > 60)
    assert memory.startswith("  memory  ━━━━")
    assert memory.endswith("3 GiB of 6 GiB")
    assert files.startswith("  cpu_attn.cpp.o 2:10, a_file_with_quite_a_long_name")
    assert files.endswith("…" if width in {60, 80} else "40 s")


def test_the_view_is_gone_afterwards_and_the_cursor_is_back() -> None:
    with compiling(80) as run:
        assert not run.terminal.cursor_is_shown
    assert run.terminal.cursor_is_shown
    assert [row for row in run.terminal.rows if row and not row.startswith("[x86] ")] == []
    assert run.terminal.rows[-2] == "[x86] kernels: modules"
    assert run.terminal.rows[-1].startswith("[x86] kernels done in ")


def test_messages_scroll_above_the_view() -> None:
    with compiling(80, height=12) as run:
        for number in range(30):
            run.reporter.info(f"message {number}")
        run.reporter.announce("an alternate is used: " + "for a reason that is longer than a row " * 4)
        print("a line of another library", file=sys.stderr)
        run.seen()
        assert len(view(run.terminal.rows)) == 4
        story = run.terminal.story
        above = story[: len(story) - 4]
    assert [row for row in above if "message" in row] == [f"[x86] message {number}" for number in range(30)]
    assert above[-4].startswith("[x86] NOTE an alternate is used: for a reason")
    assert above[-3].startswith("      "), "the rest of a message stands below its beginning"
    assert above[-1] == "a line of another library"
    assert not any("▸" in row or "━" in row for row in above)


@pytest.mark.parametrize("widths", [(60, 140), (100, 60, 45, 30, 120), (119, 118, 117), (62, 61, 60)])
def test_a_terminal_that_becomes_narrower_or_wider(widths: tuple[int, ...]) -> None:
    with compiling(120) as run:
        run.reporter.info("before")
        for width in widths:
            run.resize(width)
            run.reporter.info(f"at {width}")
            run.draw()
        rows = run.terminal.rows
        wide = widths[-1] >= 50
        assert sum("kernels" in row and "▸" in row for row in rows) == wide
        assert sum("━" in row for row in rows) == 2 * wide
        assert sum("cpu_attn" in row for row in rows) == wide
    lines = [f"[x86] at {width}" for width in widths]
    told = [row for row in rows if row.startswith(("[x86] before", "[x86] at"))]
    assert told == ["[x86] before", *lines]


def test_a_terminal_that_cuts_its_rows_loses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTERM_VERSION", "XTerm(390)")
    with compiling(120) as run:
        run.reporter.info("before")
        run.seen()
        run.terminal.screen.resize(40, 60)
        run.console.width = 60
        run.draw()
        rows = run.terminal.rows
    assert "[x86] before" in rows
    assert sum("▸" in row for row in rows) == 1


@pytest.mark.parametrize(
    ("environ", "divides"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "screen-256color", "TMUX": "/tmp/x"}, True),
        ({"TERM": "screen"}, False),
        ({"TERM": "linux"}, False),
        ({}, True),
    ],
)
def test_which_terminals_divide_rows(environ: dict[str, str], divides: bool) -> None:
    assert divides_rows(environ) == divides


@pytest.mark.parametrize(("width", "height"), [(40, 40), (49, 40), (80, 7)])
def test_a_small_terminal_has_one_line(width: int, height: int) -> None:
    with compiling(width, height) as run:
        assert run.terminal.rows[-1].startswith("[x86] kernels: ")
        assert "43%  about 34" in run.terminal.rows[-1]
        assert not any("memory  ━" in row for row in run.terminal.rows)


def test_each_drawing_is_one_write_and_clears_no_screen() -> None:
    class Noting(TerminalText):
        def __init__(self) -> None:
            super().__init__()
            self.writes: list[str] = []

        def write(self, text: str) -> int:
            self.writes.append(text)
            return len(text)

    file = Noting()
    reporter = Reporter("x86", Console(file=file, force_terminal=True, width=80, height=40, soft_wrap=True))
    with reporter.stage("kernels", "x"):
        reporter.progress(LATE)
        live = reporter._live
        assert live is not None
        live.auto_refresh = False
        for _ in range(3):
            file.writes.clear()
            live.refresh()
            (drawn,) = [text for text in file.writes if text]
            assert "43%" in drawn
            assert "\x1b[2J" not in drawn


def test_without_the_whole_and_a_cap_there_are_no_bars() -> None:
    with running(80) as run, run.reporter.stage("parity", "x"):
        run.reporter.progress(Progress(7, 0, unit="cases", memory=GIB, detail="_C: silu[3]"))
        run.draw()
        assert run.terminal.rows[-3:] == ["[x86] ▸ parity 0 s", "  memory  1 GiB", "  _C: silu[3]"]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (120, "[x86] ✓ source 2 s  ✓ environment 1:05  ▸ kernels 12:10  · wheel  · install check"),
        (75, "[x86] ✓ source  ✓ environment  ▸ kernels 12:10  · wheel  · install check"),
        (62, "[x86] ✓ 2 stages  ▸ kernels 12:10  · wheel  · install check"),
        (58, "[x86] ✓ 2 stages  ▸ kernels 12:10  · 2 more"),
        (40, "[x86] ▸ kernels 12:10"),
        (15, "[x86] ▸ kernel…"),
    ],
)
def test_stages_in_as_much_detail_as_fits(width: int, line: str) -> None:
    stages = Stages()
    stages.expect(EXPECTED)
    for name, seconds in (("source", 2.2), ("environment", 65)):
        stages.begin(name)
        stages.end(seconds)
    stages.begin("kernels")
    assert stage_line("x86", stages, 730, width, ascii_only=False).plain == line
    ascii_line = stage_line("x86", stages, 730, width, ascii_only=True).plain
    assert ascii_line.rstrip("…").isascii()


def test_a_stage_that_nobody_expected_takes_none_away() -> None:
    stages = Stages()
    stages.expect(("source", "kernels"))
    stages.begin("acl")
    assert stages.coming == ("source", "kernels")
    stages.end(1)
    stages.begin("kernels")
    assert (stages.coming, list(stages.done)) == ((), ["acl"])


@pytest.mark.parametrize("setting", [{"TERM": "dumb"}, {"quiet": "1"}])
def test_where_there_is_no_view(setting: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = TerminalText()
    if "TERM" in setting:
        monkeypatch.setenv("TERM", "dumb")
    reporter = Reporter("x86", Console(file=file, force_terminal=True, width=80, quiet="quiet" in setting))
    with reporter.stage("kernels", "x"):
        reporter.progress(LATE)
        assert reporter._live is None
        print("to be seen", file=sys.stderr)
    assert "\x1b[?25l" not in file.getvalue()


def test_without_colours_there_is_a_view_of_signs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with compiling(80) as run:
        assert len(view(run.terminal.rows)) == 4
        assert b"\x1b[3" not in run.terminal.raw


BUILD = """
import time
from cpuwheels.core.console import Reporter
from cpuwheels.core.progress import Progress
reporter = Reporter("x86")
reporter.expect(["source", "kernels", "wheel"])
with reporter.stage("kernels", "modules"):
    for number in range(3000):
        reporter.progress(Progress(number, 3000, memory=1 << 30, cap=2 << 30))
        if number % 5 == 0:
            reporter.info(f"message {number}")
        time.sleep(0.02)
"""


def test_ctrl_c_leaves_the_terminal_as_it_was() -> None:
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}
    with pseudo_terminal(80, 30) as terminal:
        before = terminal.settings
        with program(terminal, [sys.executable, "-c", BUILD], environ) as process:
            terminal.wait_for("▸ kernels")
            terminal.wait_for("1 GiB of 2 GiB")
            terminal.resize(60)
            terminal.wait_for("message 20")
            terminal.type("\x03")
            assert process.wait(30) != 0
        terminal.wait_for("kernels stopped")
        terminal.wait_for("KeyboardInterrupt")
        assert terminal.cursor_is_shown
        assert terminal.settings == before
        rows = terminal.story
    assert not any("▸" in row or "━" in row for row in rows)
    numbers = [int(row.rsplit(" ", 1)[1]) for row in rows if row.startswith("[x86] message")]
    assert numbers == list(range(0, 5 * len(numbers), 5))


ONE = Progress(
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
        (170, f"[x86] kernels: ━━━━━━━━━━━━╺━━━━━━━━━━━━━━━ 43%  {ABOUT}  {ONE.detail}"),
    ],
)
def test_what_matters_least_is_cut_first(width: int, line: str) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    assert Text.from_ansi(live_line(console, ONE)).plain == line


def test_without_colours_the_bar_shows_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    line = live_line(Console(file=io.StringIO(), force_terminal=True, width=60), ONE)
    assert line == "[x86] kernels: ━━━━       43%  about 34:26 to go"


def test_on_a_terminal_of_ascii_letters_the_bar_is_of_those() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    line = live_line(Console(file=file, force_terminal=True, width=60, color_system=None), ONE)
    assert line.isascii()
    assert "43%  about 34:26 to go" in line


def test_where_nothing_is_known_of_the_whole_there_is_no_bar() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    line = live_line(console, Progress(1 << 20, 0, unit="bytes", detail="the sdist"))
    assert line == "[x86] kernels: 1 MiB  elapsed 12:10  the sdist"


def test_a_long_name_of_the_target_leaves_room_for_percent_and_time() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    assert live_line(console, ONE, "x86 0123456789ab") == "[x86 0123456789ab] kernels: 43%  about 34:26 to go"
