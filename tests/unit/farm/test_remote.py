"""The executor of a farm, with real workers: processes of dask.distributed that talk by TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from cpuwheels.core.errors import CompileError, DownloadError, FarmError, StoppedError
from cpuwheels.farm.done import NOT_RUN, Done
from cpuwheels.farm.engine import HEARTBEAT_SECONDS
from cpuwheels.farm.executor import ATTEMPTS, run_jobs
from cpuwheels.farm.job import Job
from cpuwheels.farm.local import LocalExecutor
from cpuwheels.farm.remote import RemoteExecutor
from cpuwheels.farm.security import make_certificates, read_certificates
from farms import Farm, begun, events_in, jobs_for, machine, site_in, wait_for


def as_it_is(_job: Job, done: object) -> object:
    return done


def test_a_graph_comes_to_the_same_as_on_one_machine(farm: Farm, remote: RemoteExecutor, tmp_path: Path) -> None:
    jobs = jobs_for("same1", "same2", level="smoke", kernels="k")
    farm.forget_kernels()
    there = run_jobs(jobs, remote, as_it_is)  # type: ignore[arg-type]
    with LocalExecutor(site_in(tmp_path), machine()) as local:
        here = run_jobs(jobs, local, as_it_is)  # type: ignore[arg-type]
    facts = [
        {key: (done.code, done.folder, done.wheel, done.sha256, done.kernels) for key, done in results.items()}  # type: ignore[union-attr]
        for results in (there, here)
    ]
    assert facts[0] == facts[1]
    assert {done.by for done in there.values()} <= {"one", "two"}  # type: ignore[union-attr]
    assert len(begun(farm.events, "kernels x86 same1")) == 1
    assert not [line for line in events_in(farm.events) if line.startswith("compiled same")], "one machine did it"


def test_another_machine_takes_the_kernels_that_one_has_compiled(farm: Farm, remote: RemoteExecutor) -> None:
    first, *wheels = jobs_for("here1", "here2", kernels="k")
    farm.forget_kernels()
    kernels = remote.submit(first).result(60)
    for job, avoid in zip(wheels, ((), (kernels.by,)), strict=True):
        assert remote.submit(job, avoid=avoid).result(60).code == 0
    assert not [line for line in events_in(farm.events) if line.startswith("compiled here")]
    assert f"kernels here2 {kernels.kernels} signed" in events_in(farm.events)


def test_workers_report_every_few_seconds(remote: RemoteExecutor) -> None:
    """dask has them report twice a second, which costs half a percent of a CPU for each."""

    def interval(dask_worker: Any) -> float:
        return dask_worker.periodic_callbacks["heartbeat"].callback_time / 1000  # type: ignore[no-any-return]

    remote.machines()
    wait_for(lambda: set(remote._farm.client.run(interval).values()) == {HEARTBEAT_SECONDS})
    assert HEARTBEAT_SECONDS >= 5


def test_each_worker_has_stores_of_its_own(farm: Farm, remote: RemoteExecutor) -> None:
    for name in ("own1", "own2"):
        (farm.events / f"hang-{name}").touch()
    futures = [remote.submit(job) for job in jobs_for("own1", "own2")]
    wait_for(lambda: begun(farm.events, "build x86 own1") and begun(farm.events, "build x86 own2"))
    ((_, first),), ((_, second),) = begun(farm.events, "build x86 own1"), begun(farm.events, "build x86 own2")
    for name in ("own1", "own2"):
        (farm.events / f"hang-{name}").unlink()
    assert {future.result().by for future in futures} == {"one", "two"}
    assert first != second


def test_a_job_that_its_client_gives_up_is_ended(farm: Farm) -> None:
    (farm.events / "hang-given-up").touch()
    with RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        (job,) = jobs_for("given-up")
        future = executor.submit(job)
        wait_for(lambda: begun(farm.events, "build x86 given-up"))
        ((command, _),) = begun(farm.events, "build x86 given-up")
    wait_for(lambda: not psutil.pid_exists(command))
    assert isinstance(future.exception(10), StoppedError)


def test_a_failure_is_a_result_and_a_passing_one_is_tried_again(farm: Farm, remote: RemoteExecutor) -> None:
    (farm.events / "fail-bad").write_text(str(CompileError.exit_code))
    (farm.events / "fail-net").write_text(str(DownloadError.exit_code))
    bad, net = (remote.submit(job).result(60) for job in jobs_for("bad", "net"))
    assert (bad.code, net.code) == (CompileError.exit_code, DownloadError.exit_code)
    assert "told to fail" in bad.output
    assert (len(begun(farm.events, "build x86 bad")), len(begun(farm.events, "build x86 net"))) == (1, ATTEMPTS)


def test_kernels_that_fail_for_a_passing_reason_leave_each_wheel_to_try_by_itself(
    farm: Farm, remote: RemoteExecutor
) -> None:
    kernels, *wheels = jobs_for("alone1", "alone2", kernels="k")
    farm.forget_kernels()
    (farm.events / "fail-alone1").write_text(f"{f'{DownloadError.exit_code} ' * ATTEMPTS} 0")
    results = run_jobs([kernels, *wheels], remote, as_it_is)  # type: ignore[arg-type]
    assert [results[job.key].code for job in (kernels, *wheels)] == [DownloadError.exit_code, 0, 0]  # type: ignore[union-attr]
    assert len(begun(farm.events, "kernels x86 alone1")) == ATTEMPTS


def test_a_test_of_a_wheel_that_is_not_made_for_a_passing_reason_is_not_begun(
    farm: Farm, remote: RemoteExecutor
) -> None:
    wheel, parity = jobs_for("lacking", level="smoke")
    (farm.events / "fail-lacking").write_text(str(DownloadError.exit_code))
    results = run_jobs([wheel, parity], remote, as_it_is)  # type: ignore[arg-type]
    found = [(results[job.key].key, results[job.key].code) for job in (wheel, parity)]  # type: ignore[union-attr]
    assert found == [(wheel.key, DownloadError.exit_code), (parity.key, NOT_RUN)]


def test_what_is_here_and_of_no_use_is_given_up(remote: RemoteExecutor) -> None:
    kernels, *others = jobs_for("given1", "given2", kernels="k", level="smoke")
    run_jobs([kernels, *others], remote, as_it_is)  # type: ignore[arg-type]
    wait_for(
        lambda: (
            (list(remote._results.given), remote._results.futures, remote._results.expected) == ([kernels.key], {}, {})
        )
    )
    wait_for(lambda: not remote._farm.client.futures)
    later = jobs_for("given3", kernels="k")[-1].model_copy(update={"after": (kernels.key,)})
    assert remote.submit(later).result(60).code == 0, "kernels are kept for those that come later"


def test_who_is_left_out_for_wrong_wheels(remote: RemoteExecutor) -> None:
    """Whoever packed it, but for the second packer of wrong wheels of one worker's kernels that worker."""
    jobs = jobs_for("w1", "w2", "w3", "w4", kernels="k")
    kernels, *wheels = jobs
    remote._results.kernels[kernels.key] = Done(kernels.key, by="maker", kernels="k" * 24)
    packed = [Done(job.key, by=by) for job, by in zip(wheels, ("a", "a", "b", "maker"), strict=True)]
    assert remote.leave_out(wheels[0], packed[0]) == "a"
    assert remote.leave_out(wheels[1], packed[1]) == "a"
    assert remote._blame.left_out == {"a"}
    assert remote.leave_out(wheels[2], packed[2]) == "maker"
    assert remote._blame.left_out == {"maker"}, "the first packer is not to blame"
    assert remote._results.known[kernels.key]().code != 0, "its kernels are not used any more"
    assert remote._results.kernels == {}
    assert remote.leave_out(wheels[3], packed[3]) == "maker"


def test_a_job_that_no_worker_can_do_is_refused(remote: RemoteExecutor) -> None:
    (job,) = jobs_for("a")
    far = job.model_copy(update={"needs": job.needs.model_copy(update={"can": "build:s390x"})})
    with pytest.raises(FarmError, match="no machine can do wheel x86 a: it has to build s390x") as raised:
        remote.submit(far)
    assert "one: build arm" in raised.value.output
    with pytest.raises(FarmError, match="no machine can do"):
        remote.submit(job, avoid=["one", "two"])
    assert remote.submit(jobs_for("elsewhere")[0], avoid=["one"]).result(60).by == "two"
    with pytest.raises(FarmError, match="no machine can do"):
        remote.require(far)
    remote.require(job)


def test_a_wheel_that_is_there_is_sent_to_be_tested(remote: RemoteExecutor, tmp_path: Path) -> None:
    wheel, parity = jobs_for("sent", level="smoke")
    with LocalExecutor(site_in(tmp_path), machine()) as local:
        done = local.submit(wheel).result()
    remote.know(done, tmp_path / "dist")
    tested = remote.submit(parity).result(60)
    assert (tested.code, tested.sha256) == (0, done.sha256)
    assert "parity.json" in tested.files


def test_workers_of_another_version_refuse(remote: RemoteExecutor) -> None:
    (job,) = jobs_for("version")
    with pytest.raises(FarmError, match="has another version of cpuwheels"):
        remote.submit(job.model_copy(update={"identity": "another"})).result(60)


def test_other_certificates_do_not_let_in(farm: Farm, tmp_path: Path) -> None:
    make_certificates(tmp_path / "keys")
    with pytest.raises(FarmError, match="the scheduler does not answer"):
        RemoteExecutor(farm.address, read_certificates(tmp_path / "keys"), timeout=3)
