"""Many wheels into one output folder: what is there stays, what comes is put in place, what failed is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError, FarmError
from cpuwheels.farm.batch import Came, require_all, run_batch
from cpuwheels.farm.done import Done
from cpuwheels.farm.job import Job
from cpuwheels.farm.journal import Journal
from cpuwheels.farm.local import LocalExecutor
from cpuwheels.farm.opinion import Opinions
from cpuwheels.farm.remote import RemoteExecutor
from farms import Farm, begun, events_in, jobs_for, machine, paths_in, site_in

Batch = Callable[..., list[Came]]


@pytest.fixture
def local(tmp_path: Path, reporter: Reporter) -> Batch:
    def run(jobs: tuple[Job, ...]) -> list[Came]:
        with LocalExecutor(site_in(tmp_path), machine(), pause=lambda _: None) as executor:
            return run_batch(jobs, executor, Journal(tmp_path / "dist"), paths_in(tmp_path), reporter)

    return run


def states(came: list[Came]) -> dict[str, str]:
    return {str(one.job): one.state for one in came}


def test_what_is_there_is_not_made_again(local: Batch, tmp_path: Path) -> None:
    jobs = jobs_for("a", "b", level="smoke", kernels="k")
    assert set(states(local(jobs)).values()) == {"done"}
    before = events_in(tmp_path / "events")
    again = local(jobs)
    assert states(again) == dict.fromkeys(("wheel x86 a", "parity x86 a", "wheel x86 b", "parity x86 b"), "there")
    assert events_in(tmp_path / "events") == before
    wheel = next(tmp_path.glob("dist/x86/*/*.whl"))
    wheel.write_text("damaged")
    assert sorted(states(local(jobs)).values()) == ["done", "done", "done", "there", "there"]
    assert wheel.read_text() != "damaged"


def test_wheels_whose_kernels_were_there_are_no_measure_of_kernels(local: Batch, tmp_path: Path) -> None:
    local(jobs_for("a", "b", kernels="k"))
    local(jobs_for("c"))
    assert {kind: len(found) for (kind, _), found in Journal(tmp_path / "dist").seconds().items()} == {
        "kernels": 1,
        "wheel": 3,
    }


def test_another_test_of_a_wheel_that_is_there(local: Batch, tmp_path: Path) -> None:
    local(jobs_for("a"))
    assert states(local(jobs_for("a", level="full"))) == {"wheel x86 a": "there", "parity x86 a": "done"}
    assert json.loads(next(tmp_path.glob("dist/x86/*/parity.json")).read_text()) == {"level": "full"}
    assert len(begun(tmp_path / "events", "build x86 a")) == 1


def test_one_that_failed_does_not_stop_the_others_and_is_the_error(local: Batch, tmp_path: Path) -> None:
    site_in(tmp_path)
    (tmp_path / "events" / "fail-a").write_text(str(CompileError.exit_code))
    came = local(jobs_for("a", "b", level="smoke"))
    assert states(came) == {
        "wheel x86 a": "failed",
        "parity x86 a": "not begun",
        "wheel x86 b": "done",
        "parity x86 b": "done",
    }
    with pytest.raises(CompileError, match="wheel x86 a failed") as raised:
        require_all(came)
    assert "of 4 jobs 2 are not done" in raised.value.next_step
    (tmp_path / "events" / "fail-a").unlink()
    assert states(local(jobs_for("a", "b", level="smoke")))["wheel x86 a"] == "done"
    require_all(local(jobs_for("a", "b", level="smoke")))


def test_a_farm_leaves_the_same_files(
    farm: Farm, remote: RemoteExecutor, local: Batch, tmp_path: Path, reporter: Reporter
) -> None:
    jobs = jobs_for("files1", "files2", level="smoke", kernels="k")
    came = run_batch(jobs, remote, Journal(tmp_path / "far"), paths_in(tmp_path / "x"), reporter)
    assert set(states(came).values()) == {"done"}
    local(jobs)
    ours, theirs = (
        {path.relative_to(base).as_posix(): path.read_bytes() for path in base.glob("x86/**/*") if path.is_file()}
        for base in (tmp_path / "dist", tmp_path / "x" / "dist")
    )
    assert ours == theirs
    assert len(ours) == 2 * 3
    assert not list((tmp_path / "x" / "dist").rglob(".from-*"))
    assert farm.process.poll() is None


def test_a_second_opinion_of_another_machine_that_takes_nothing_from_the_first(
    farm: Farm, remote: RemoteExecutor, tmp_path: Path, reporter: Reporter
) -> None:
    told: list[str] = []

    def leave_out(job: Job, done: Done) -> str:
        told.append(str(job))
        return done.by

    opinions = Opinions(remote, told.append, leave_out)
    jobs = jobs_for("twice1", "twice2", level="smoke", kernels="k")
    came = run_batch(jobs, remote, Journal(tmp_path), paths_in(tmp_path), reporter, opinions)
    assert set(states(came).values()) == {"done"}
    for source in ("twice1", "twice2"):
        stores = {Path(cache) for _, cache in begun(farm.events, f"build x86 {source}")}
        assert len(stores) == 2
        assert len({path.parent.name for path in stores}) == 2, "two machines"
        assert sum(path.name.endswith("-alone") for path in stores) == 1
        (compiled,) = [line for line in events_in(farm.events) if line.startswith(f"compiled {source} ")]
        assert compiled.endswith("-alone"), "the second one compiles by itself, the first one does not"
    assert told == []


def test_what_came_home_is_not_kept_in_memory_and_each_test_is_on_the_wheels_page(
    remote: RemoteExecutor, tmp_path: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[Path] = []
    monkeypatch.setattr("cpuwheels.farm.batch.refresh_if_built", pages.append)
    jobs = jobs_for("pages", level="smoke", models=("qwen3",))
    came = run_batch(jobs, remote, Journal(tmp_path), paths_in(tmp_path), reporter)
    assert [one.state for one in came] == ["done"] * 3
    assert [(one.done.content, dict(one.done.files)) for one in came if one.done] == [(b"", {})] * 3
    (wheel,) = tmp_path.glob("dist/x86/*/*.whl")
    assert pages == [wheel] * 3


def test_the_test_of_a_wheel_of_which_nothing_is_known_ends(
    tmp_path: Path, reporter: Reporter, remote: RemoteExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        assert not list(avoid)
        future: Future[Done] = Future()
        if job.kind == "wheel":
            future.set_exception(FarmError("it went wrong"))
        else:
            future.set_result(Done(job.key, folder="x86/1", wheel="a.whl", sha256="0" * 64, by="one"))
        return future

    monkeypatch.setattr(remote, "submit", submit)
    jobs = jobs_for("unknown", level="smoke")
    came = run_batch(jobs, remote, Journal(tmp_path), paths_in(tmp_path), reporter)
    assert states(came) == {"wheel x86 unknown": "failed", "parity x86 unknown": "failed"}


def test_a_test_that_nobody_can_do_is_refused_before_anything_is_built(
    farm: Farm, remote: RemoteExecutor, tmp_path: Path, reporter: Reporter
) -> None:
    jobs = jobs_for("early", level="smoke", features=frozenset({"amx-usable"}))
    opinions = Opinions(remote, print, lambda _, done: done.by)
    with pytest.raises(FarmError, match="no machine can do parity x86 early"):
        run_batch(jobs, remote, Journal(tmp_path), paths_in(tmp_path), reporter, opinions)
    assert begun(farm.events, "build x86 early") == []


def test_nothing_failed() -> None:
    (job,) = jobs_for("a")
    require_all([Came(job, "done"), Came(job, "there")])
    with pytest.raises(FarmError):
        require_all([Came(job, "failed", error=FarmError("x"))])


def test_a_wheel_that_a_test_sends_back_otherwise_is_not_taken(
    farm: Farm, remote: RemoteExecutor, tmp_path: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_for("tampered", level="smoke")
    submit = remote.submit

    def tampering(job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        future = submit(job, avoid=avoid)
        if job.kind == "parity":
            other: Future[Done] = Future()
            other.set_result(replace(future.result(60), sha256="0" * 64))
            return other
        return future

    monkeypatch.setattr(remote, "submit", tampering)
    came = run_batch(jobs, remote, Journal(tmp_path / "dist"), paths_in(tmp_path), reporter)
    assert states(came) == {"wheel x86 tampered": "done", "parity x86 tampered": "failed"}
    assert "tested another wheel" in str(came[1].error)
    (wheel,) = tmp_path.glob("dist/x86/*/*.whl")
    assert wheel.read_text().startswith("x86 tampered\n")
    assert not wheel.with_name("parity.json").exists()
    assert farm.process.poll() is None
