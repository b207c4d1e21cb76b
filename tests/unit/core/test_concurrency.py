"""Functions side by side: their results in order, and nothing left behind if one fails."""

from __future__ import annotations

import signal
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpuwheels.core import concurrency
from cpuwheels.core.concurrency import begun, ended_after, in_background, run_parallel
from cpuwheels.core.process import run


@pytest.mark.parametrize("at_once", [0, 1, 2, 9])
def test_results_come_in_order(at_once: int) -> None:
    def slow(number: int) -> int:
        time.sleep(0.03 * (3 - number))
        return number

    assert run_parallel([partial(slow, number) for number in range(3)], at_once) == [0, 1, 2]


def test_so_many_run_at_once_and_no_more() -> None:
    meeting, lock = threading.Barrier(2, timeout=20), threading.Lock()
    now: list[int] = []

    def meet() -> int:
        with lock:
            now.append(1)
            there = len(now)
        meeting.wait()
        time.sleep(0.05)  # in which another could begin
        with lock:
            now.pop()
        return there

    assert max(run_parallel([meet] * 6, 2)) == 2


def test_if_one_fails_the_commands_of_the_others_are_ended(tmp_path: Path) -> None:
    began = threading.Event()

    def long() -> None:
        run(["sh", "-c", "echo begun; sleep 600"], log=tmp_path / "log", on_line=lambda _: began.set(), check=False)

    def fails() -> None:
        began.wait(20)
        raise KeyError

    with pytest.raises(KeyError):
        run_parallel([fails, long, (tmp_path / "never").touch], 2)
    assert "exit status -15" in (tmp_path / "log").read_text()
    assert not (tmp_path / "never").exists()


def test_the_failure_is_told_and_not_what_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(threading.Event):
        def set(self) -> None:
            super().set()
            time.sleep(0.5)  # in which the next function is taken up, and not begun

    def fails() -> None:
        raise KeyError("the failure")

    stands = SimpleNamespace(Event=Slow, get_ident=threading.get_ident)
    monkeypatch.setattr(concurrency, "threading", stands)
    with pytest.raises(KeyError, match="the failure"):
        run_parallel([fails, partial(time.sleep, 0.1), partial(time.sleep, 0.1)], 2)


def test_what_was_begun_gives_its_result_or_its_error_when_it_is_asked() -> None:
    go = threading.Event()

    def work() -> str:
        go.wait(20)
        return "result"

    with begun(work) as wait:
        go.set()
        assert (wait(), wait()) == ("result", "result")

    def fails() -> None:
        raise KeyError("its error")

    with begun(fails) as wait, pytest.raises(KeyError, match="its error"):
        wait()


def test_a_block_that_ends_before_what_it_began_ends_its_command(tmp_path: Path) -> None:
    started = threading.Event()

    def long() -> None:
        run(["sh", "-c", "echo begun; sleep 600"], log=tmp_path / "log", on_line=lambda _: started.set(), check=False)

    def block() -> None:
        with begun(long):
            assert started.wait(20)
            raise ValueError("the block's")

    with pytest.raises(ValueError, match="the block's"):
        block()
    assert "exit status -15" in (tmp_path / "log").read_text()


def test_work_beside_goes_on_until_the_block_ends() -> None:
    done: list[str] = []

    def work(stop: threading.Event) -> None:
        done.append("begun")
        stop.wait()
        done.append("ended")

    with in_background(work):
        assert "ended" not in done
    assert done == ["begun", "ended"]


def test_work_beside_ends_when_the_block_fails() -> None:
    done: list[bool] = []
    with pytest.raises(KeyError), in_background(lambda stop: done.append(stop.wait())):
        raise KeyError
    assert done == [True]


@pytest.mark.parametrize(
    ("seconds", "program", "late"), [(0.2, "sleep 60", True), (60, "true", False), (None, "true", False)]
)
def test_a_command_ends_when_its_time_is_over(
    tmp_path: Path, seconds: float | None, program: str, *, late: bool
) -> None:
    began = time.monotonic()
    with ended_after(seconds) as over:
        done = run(program.split(), log=tmp_path / "log", check=False)
    assert over.is_set() == late
    assert (done.returncode == -signal.SIGTERM) == late
    assert time.monotonic() - began < 30
