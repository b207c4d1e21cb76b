"""The process that times: what it says, and what happens if it dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from cpuwheels.core.errors import ParityError
from cpuwheels.sandbox.confine import Confined
from cpuwheels.verification.benchmark import worker as workers
from cpuwheels.verification.benchmark.worker import Begun, LeftOutError, Worker, pinned
from layout import HELPERS

SCRIPT = HELPERS / "fake_timer.py"


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker("one.whl", Path(sys.executable), SCRIPT, tmp_path / "_C.so", 1, tmp_path / "log") as started:
        started.ready()
        yield started


def test_it_has_the_variables_that_the_cpu_needs(tmp_path: Path) -> None:
    env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
    with Worker("one.whl", Path(sys.executable), SCRIPT, tmp_path / "_C.so", 1, tmp_path / "log", env) as started:
        started.ready()
        variables = Path(f"/proc/{started._process.child.pid}/environ").read_bytes().split(b"\0")
        assert b"ONEDNN_MAX_CPU_ISA=AVX512_CORE" in variables


def begin(worker: Worker, case: str, place: int | None = None) -> Begun:
    worker.begin(case, "a", place)
    return worker.begun()


def test_a_call_is_timed(worker: Worker) -> None:
    assert worker.operators == ["a"]
    assert begin(worker, "good") == Begun(2, 0.5)
    assert worker.sample(8) == 2.0
    worker.end()
    worker.end()
    assert begin(worker, "good", 2) == Begun(2, 0.5)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("killed", "its process was killed by SIGSEGV (one.whl)"),
        ("ends", "its process ended with status 3 (one.whl)"),
        ("refused", "the call is refused"),
        ("raises", "it raised an error (one.whl)"),
    ],
)
def test_a_case_that_cannot_be_timed_says_why_and_the_next_one_is_timed(worker: Worker, case: str, reason: str) -> None:
    with pytest.raises(LeftOutError) as raised:
        begin(worker, case)
    assert str(raised.value) == reason
    worker.end()
    begin(worker, "good")
    assert worker.sample(4) == 1.0


def test_a_process_that_does_not_answer_is_ended(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.3)
    with pytest.raises(LeftOutError, match=r"did not answer within 0.3 s \(one.whl\)"):
        begin(worker, "hangs")
    monkeypatch.setattr(workers, "PATIENCE", 30)
    assert begin(worker, "good").place == 2


def test_a_process_that_closes_its_pipe_is_ended(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    with pytest.raises(LeftOutError, match=r"did not answer within 0.5 s \(one.whl\)"):
        begin(worker, "says no more")
    monkeypatch.setattr(workers, "PATIENCE", 30)
    assert begin(worker, "good").place == 2


def test_an_answer_without_end_is_not_kept(worker: Worker) -> None:
    with pytest.raises(LeftOutError, match=r"answers without end: a line of more than 16 MiB \(one.whl\)"):
        begin(worker, "floods")
    assert begin(worker, "good").place == 2


def test_a_time_that_is_none_is_no_time(worker: Worker) -> None:
    with pytest.raises(LeftOutError, match=r"answers with no time \(one.whl\)"):
        begin(worker, "no time")
    for seconds in (float("nan"), float("inf"), 0, -1, None, [1]):
        with pytest.raises(LeftOutError, match="answers with no time"):
            worker._seconds({"seconds": seconds})


def test_the_process_is_confined_and_ends_as_its_own_did(tmp_path: Path) -> None:
    """bubblewrap turns a signal into a status."""
    script = tmp_path / "through"
    script.write_text('#!/bin/sh\n"$@"\nexit $?\n')
    script.chmod(0o755)

    def confine(argv: Sequence[str | Path], env: Mapping[str, str]) -> Confined:
        return Confined([script, *argv], {**env, "CONFINED": "yes"}, by_bubblewrap=True)

    library, log = tmp_path / "_C.so", tmp_path / "log"
    with Worker("one.whl", Path(sys.executable), SCRIPT, library, 1, log, confine=confine) as started:
        started.ready()
        assert b"CONFINED=yes" in Path(f"/proc/{started._process.child.pid}/environ").read_bytes().split(b"\0")
        with pytest.raises(LeftOutError, match="its process was killed by SIGSEGV"):
            begin(started, "killed")


def test_a_call_that_fails_when_it_is_repeated_is_left_out(worker: Worker) -> None:
    begin(worker, "fails late")
    with pytest.raises(LeftOutError, match="it raised an error"):
        worker.sample(1)
    worker.end()
    assert begin(worker, "good").place == 2


def test_a_library_that_cannot_be_loaded_ends_the_comparison(tmp_path: Path) -> None:
    worker = Worker("one.whl", Path(sys.executable), SCRIPT, tmp_path / "broken.so", 1, tmp_path / "log")
    with worker, pytest.raises(ParityError, match=r"broken.so of one.whl could not be loaded: .* status 1") as raised:
        worker.ready()
    assert "no such symbol" in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads are bound to CPUs on Linux only")
def test_threads_are_bound_to_cpus_that_may_be_used() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    assert pinned(1)["OMP_PLACES"] == f"{{{cpus[0]}}}"
    assert pinned(len(cpus) + 1)["OMP_PLACES"].count("{") == len(cpus)
    assert pinned(3)["OMP_NUM_THREADS"] == "3"
    assert int(pinned(3)["GOMP_SPINCOUNT"]) == 10_000
