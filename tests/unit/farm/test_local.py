"""The executor of one machine."""

from __future__ import annotations

import dataclasses
from concurrent.futures import CancelledError
from pathlib import Path

import psutil
import pytest

from cpuwheels.core.errors import CompileError, DownloadError, FarmError, StoppedError
from cpuwheels.farm.done import NOT_RUN
from cpuwheels.farm.executor import ATTEMPTS, run_jobs
from cpuwheels.farm.job import Job
from cpuwheels.farm.local import PAUSE_SECONDS, LocalExecutor
from farms import begun, events_in, jobs_for, machine, site_in, wait_for


def as_it_is(_job: Job, done: object) -> object:
    return done


def run(folder: Path, jobs: tuple[Job, ...], pauses: list[float] | None = None):
    with LocalExecutor(site_in(folder), machine(), pause=(pauses if pauses is not None else []).append) as executor:
        return run_jobs(jobs, executor, as_it_is)  # type: ignore[arg-type]


def order(folder: Path) -> list[str]:
    return [" ".join(line.split()[1:4]) for line in events_in(folder / "events") if line.startswith("begin")]


def test_results_are_where_a_build_leaves_them(tmp_path: Path) -> None:
    results = run(tmp_path, jobs_for("a", level="smoke"))
    wheel, parity = results.values()
    folder = tmp_path / "dist" / wheel.folder
    assert (folder / wheel.wheel).read_text().startswith("x86 a\n")
    assert (folder / "parity.json").is_file()
    assert (parity.wheel, parity.sha256, parity.content) == (wheel.wheel, wheel.sha256, b"")
    assert order(tmp_path) == ["build x86 a", "parity x86 a"]


def test_the_longest_way_goes_first(tmp_path: Path) -> None:
    jobs = jobs_for("a", "b", level="smoke", kernels="k")
    (alone,) = jobs_for("c", priority=1)
    run(tmp_path, (*jobs, alone))
    assert order(tmp_path)[1:] == ["kernels x86 a", *order(tmp_path)[2:]] or order(tmp_path)[0] == "kernels x86 a"
    begun_in = order(tmp_path)
    assert begun_in.index("build x86 c") <= 1, "a higher priority goes before all that has not begun"
    assert begun_in.index("build x86 b") < begun_in.index("parity x86 a"), "the longer way first"


def test_a_failed_job_stops_those_after_it_alone(tmp_path: Path) -> None:
    site_in(tmp_path)
    (tmp_path / "events" / "fail-a").write_text(str(CompileError.exit_code))
    jobs = jobs_for("a", "b", level="smoke")
    results = {
        str(job): result for job, result in zip(jobs, map(run(tmp_path, jobs).get, [j.key for j in jobs]), strict=True)
    }
    assert results["wheel x86 a"].code == CompileError.exit_code
    assert "told to fail" in results["wheel x86 a"].output
    assert results["parity x86 a"].code == NOT_RUN
    assert results["parity x86 b"].code == 0


def test_what_may_pass_is_tried_again_and_nothing_else(tmp_path: Path) -> None:
    site_in(tmp_path)
    passing = str(DownloadError.exit_code)
    (tmp_path / "events" / "fail-a").write_text(f"{passing} {passing} 0")
    (tmp_path / "events" / "fail-b").write_text(passing)
    pauses: list[float] = []
    first, second = run(tmp_path, jobs_for("a", "b"), pauses).values()
    assert first.code == 0
    assert second.code == DownloadError.exit_code
    assert order(tmp_path).count("build x86 b") == ATTEMPTS
    assert sorted(pauses) == [PAUSE_SECONDS, PAUSE_SECONDS, 2 * PAUSE_SECONDS, 2 * PAUSE_SECONDS]


def test_what_runs_is_ended_and_what_waits_is_not_begun(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    (tmp_path / "events" / "hang-a").touch()
    first, second = jobs_for("a", "b")
    executor = LocalExecutor(site, machine())
    running, waiting = executor.submit(first), executor.submit(second)
    wait_for(lambda: begun(tmp_path / "events", "build x86 a"))
    ((command, _),) = begun(tmp_path / "events", "build x86 a")
    executor.cancel()
    assert not psutil.pid_exists(command)
    assert isinstance(running.exception(), StoppedError)
    with pytest.raises(CancelledError):
        waiting.result()
    assert order(tmp_path) == ["build x86 a"]


def test_an_interrupted_run_ends_its_commands(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    (tmp_path / "events" / "hang-a").touch()

    def interrupt(_done: int, _all: int) -> None:
        if begun(tmp_path / "events", "build x86 a"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), LocalExecutor(site, machine()) as executor:
        run_jobs(jobs_for("a", "b"), executor, as_it_is, interrupt, every=0.05)  # type: ignore[arg-type]
    ((command, _),) = begun(tmp_path / "events", "build x86 a")
    assert not psutil.pid_exists(command)


def test_a_job_is_done_once_and_known_results_are_used(tmp_path: Path) -> None:
    wheel, parity = jobs_for("a", level="smoke")
    with LocalExecutor(site_in(tmp_path), machine()) as executor:
        first = executor.submit(wheel)
        assert executor.submit(wheel) is first
        done = first.result()
    with LocalExecutor(site_in(tmp_path), machine()) as executor:
        executor.know(done, tmp_path / "dist")
        assert executor.submit(parity).result().code == 0
    assert order(tmp_path) == ["build x86 a", "parity x86 a"]


def test_two_at_once(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    for name in ("hang-a", "hang-b"):
        (tmp_path / "events" / name).touch()
    with LocalExecutor(site, machine(), 2) as executor:
        futures = [executor.submit(job) for job in jobs_for("a", "b")]
        wait_for(lambda: len(order(tmp_path)) == 2)
        for name in ("hang-a", "hang-b"):
            (tmp_path / "events" / name).unlink()
        assert [future.result().code for future in futures] == [0, 0]


def test_what_this_machine_cannot_do_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (job,) = jobs_for("a")
    large = job.model_copy(update={"needs": job.needs.model_copy(update={"memory": 1 << 40})})
    with LocalExecutor(site_in(tmp_path), machine()) as executor, pytest.raises(FarmError, match="cannot be done"):
        executor.submit(large)


def test_another_version_is_refused(tmp_path: Path) -> None:
    (job,) = jobs_for("a")
    with LocalExecutor(dataclasses.replace(site_in(tmp_path), name="m"), machine()) as executor:
        future = executor.submit(job.model_copy(update={"identity": "another"}))
        with pytest.raises(FarmError, match="m has another version of cpuwheels"):
            future.result()
    assert order(tmp_path) == []
