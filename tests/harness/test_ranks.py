"""Ranks, and the clock that ends what waits for ever: each failure is told, and no process is left."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import execution, ranks
from harness.case import Call, Case
from harness.execution import run_case
from harness.library import Library
from harness.ranks import Member, RanksError, run_alone, run_group, run_ranks, shared

FOREVER = 30
"""Seconds that no rank gets to sleep."""


def calls(library: Library, out: torch.Tensor) -> Callable[[], None]:
    return lambda: library.double(out, torch.ones(out.shape))


def test_each_rank_runs_and_what_it_called_counts(library: Library) -> None:
    first, second = shared(torch.zeros(3)), shared(torch.zeros(3))
    library.called.clear()
    run_ranks(library, [calls(library, first), calls(library, second)])
    assert torch.equal(first, torch.full((3,), 2.0))
    assert torch.equal(second, torch.full((3,), 2.0))
    assert library.called == {"double"}


def test_a_rank_that_raises_is_told_with_its_traceback(library: Library) -> None:
    def fail() -> None:
        raise ZeroDivisionError("in a rank")

    with pytest.raises(RanksError, match=r"rank 1: (?s:.)*ZeroDivisionError: in a rank"):
        run_ranks(library, [calls(library, torch.zeros(1)), fail])


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "rank 0: it was killed by SIGKILL"),
        (lambda: os._exit(3), "rank 0: it ended with status 3"),
    ],
)
def test_a_rank_that_dies_is_told(library: Library, end: Callable[[], None], told: str) -> None:
    with pytest.raises(RanksError, match=told):
        run_ranks(library, [end])


def test_a_rank_that_is_late_is_told_and_ended(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "alarm", lambda _: 0)  # which would end it, too, but later
    pids = shared(torch.zeros(2, dtype=torch.int64))

    def wait_for_ever() -> None:
        pids[1] = os.getpid()
        time.sleep(FOREVER)

    def end() -> None:
        pids[0] = os.getpid()

    began = time.monotonic()
    with pytest.raises(RanksError, match=r"after 1 seconds these ranks are not done: 1$"):
        run_ranks(library, [end, wait_for_ever], seconds=1)
    assert 1 <= time.monotonic() - began < FOREVER / 2
    assert_gone([int(pid) for pid in pids])


def assert_gone(pids: list[int]) -> None:
    assert all(pids)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def forked(body: Callable[[], object]) -> int:
    """Return the number of a process that runs a function and ends with 0."""
    if pid := os.fork():
        return pid
    try:
        body()
    finally:
        os._exit(0)


def test_a_rank_ends_also_if_the_process_that_started_it_is_gone(library: Library) -> None:
    reader, writer = os.pipe()

    def wait_for_ever() -> None:
        os.write(writer, b"%d\n" % os.getpid())
        time.sleep(FOREVER)

    owner = forked(lambda: run_ranks(library, [wait_for_ever], seconds=1))
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as stream:
        rank = int(stream.readline())
        os.kill(owner, signal.SIGKILL)
        os.waitpid(owner, 0)
        try:
            # The rank alone has the other end by now.
            assert select.select([stream], [], [], FOREVER / 2)[0], "the rank is still there"
            assert stream.read() == b""
        except AssertionError:
            os.kill(rank, signal.SIGKILL)
            raise


class Manager:
    """Stands for a library whose managers of shared memory are files with their names."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def init_shm_manager(self, name: str, count: int, rank: int, slots: int) -> int:
        (ranks.SEGMENTS / f"{name}_{rank}").write_text(f"{count} {slots}")
        return 40 + rank

    def join_shm_manager(self, handle: int, name: str) -> None:
        assert [(ranks.SEGMENTS / f"{name}_{rank}").read_text() for rank in (0, 1)] == ["2 5", "2 5"]
        self.called.add(f"joined {handle}")


@pytest.fixture
def segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ranks, "SEGMENTS", tmp_path)
    return tmp_path


def test_a_group_joins_and_leaves_no_segment(segments: Path) -> None:
    members, library = shared(torch.zeros(2, dtype=torch.int64)), Manager()

    def body(member: Member) -> None:
        members[member.rank] = member.handle
        assert list(segments.iterdir()) == []

    run_group(library, 2, 5, body)
    assert members.tolist() == [40, 41]
    assert library.called == {"joined 40", "joined 41"}


def test_a_group_that_fails_leaves_no_segment(segments: Path) -> None:
    class Broken(Manager):
        def join_shm_manager(self, handle: int, name: str) -> None:
            raise RuntimeError(f"{handle} cannot join {name}")

    with pytest.raises(RanksError, match="cannot join"):
        run_group(Broken(), 2, 5, lambda _: None)
    assert list(segments.iterdir()) == []


def case_of(run: Callable[[], object]) -> Case:
    def build(*_: Any) -> Call:
        return Call(lambda: run() or {}, dict)

    return Case(("double",), "case", "", build, {})


def test_a_case_that_waits_for_ever_ends_its_process(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "SECONDS", 1)
    process = forked(lambda: run_case(case_of(lambda: time.sleep(15)), library, 1))
    status = os.waitpid(process, 0)[1]
    assert os.WIFSIGNALED(status), "the case ran to its end"
    assert os.WTERMSIG(status) == signal.SIGALRM


@pytest.mark.parametrize("run", [dict, lambda: 1 // 0])
def test_after_a_case_the_clock_is_stopped(library: Library, run: Callable[[], object]) -> None:
    run_case(case_of(run), library, 1)
    assert signal.alarm(0) == 0


def test_a_call_alone_may_end_its_process(library: Library) -> None:
    x = torch.arange(3.0)

    def run() -> dict[str, torch.Tensor]:
        out = torch.empty(3)
        library.double(out, x)
        return {"out": out}

    library.called.clear()
    assert torch.equal(run_alone(library, run)["out"], x * 2)
    assert library.called == {"double"}
    with pytest.raises(RanksError, match="killed by SIGSEGV"):
        run_alone(library, lambda: signal.raise_signal(signal.SIGSEGV))  # type: ignore[arg-type,func-returns-value]
