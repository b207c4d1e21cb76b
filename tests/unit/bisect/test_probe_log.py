"""The story of a commit's trial."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from cpuwheels.bisect.probe_log import LOG, probe_story
from cpuwheels.core.errors import StoreError
from cpuwheels.core.progress import Progress
from pseudo_terminal import TerminalText


def console(*, terminal: bool = False) -> Console:
    return Console(
        file=TerminalText() if terminal else io.StringIO(), force_terminal=terminal, width=80, soft_wrap=True
    )


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_story_is_in_the_file_and_news_are_told_once(tmp_path: Path) -> None:
    screen, announced = console(), set[str]()
    for commit in ("aaa", "bbb"):
        with probe_story(f"x86 {commit}", screen, tmp_path / commit, announced) as reporter:
            with reporter.stage("wheel", "made"):
                reporter.info("a step")
                reporter.announce("an alternate is used")
            reporter.announce(f"only of {commit}")
        log = (tmp_path / commit / LOG).read_text()
        assert log.splitlines()[:3] == [
            f"[x86 {commit}] wheel: made",
            f"[x86 {commit}] a step",
            f"[x86 {commit}] NOTE an alternate is used",
        ]
        assert "wheel done in" in log
        assert reporter.announcements == ["an alternate is used", f"only of {commit}"]
    assert shown(screen).splitlines() == [
        "[x86 aaa] NOTE an alternate is used",
        "[x86 aaa] NOTE only of aaa",
        "[x86 bbb] NOTE only of bbb",
    ]


def test_without_a_terminal_progress_is_told_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("cpuwheels.core.console.time.monotonic", lambda: now)
    screen = console()
    with probe_story("x86 a", screen, tmp_path, set()) as reporter, reporter.stage("kernels", "compiled"):
        reporter.progress(Progress(1, 10))
        now = 31.0
        reporter.progress(Progress(5, 10))
    assert shown(screen) == "[x86 a] kernels: 50%  5/10 files  elapsed 31.0 s\n"
    assert "5/10 files" in (tmp_path / LOG).read_text()


def test_on_a_terminal_there_is_a_live_line(tmp_path: Path) -> None:
    screen = console(terminal=True)
    with probe_story("x86 a", screen, tmp_path, set()) as reporter, reporter.stage("kernels", "compiled"):
        reporter.progress(Progress(5, 10))
    assert "5/10 files" in shown(screen)
    assert "compiled" not in shown(screen)
    assert "\x1b" not in (tmp_path / LOG).read_text()


def test_a_trial_adds_to_its_file(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text("of before\n")
    with probe_story("x86 a", console(), tmp_path, set()) as reporter:
        reporter.info("now")
    assert (tmp_path / LOG).read_text() == "of before\n[x86 a] now\n"


def test_a_terminal_has_one_live_line(tmp_path: Path) -> None:
    terminal = Console(file=TerminalText(), force_terminal=True)
    with probe_story("x86 a", terminal, tmp_path / "a", set()) as one, one.stage("command", "waiting"):
        with probe_story("x86 b", terminal, tmp_path / "b", set(), live=False) as two, two.stage("wheel", "making"):
            two.announce("something stands in")
        assert two.announcements == ["something stands in"]
    assert "something stands in" in terminal.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "wheel done" in (tmp_path / "b" / LOG).read_text()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError), probe_story("x86 a", console(), tmp_path / "file" / "below", set()):
        pass
