"""What goes wrong on a farm of real processes: killed workers, scheduler and clients, a full disk, wrong bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import DiskFullError, FarmError
from cpuwheels.farm.batch import run_batch
from cpuwheels.farm.journal import Journal
from cpuwheels.farm.local import LocalExecutor
from cpuwheels.farm.opinion import Opinions
from cpuwheels.farm.remote import RemoteExecutor
from cpuwheels.farm.security import read_certificates
from cpuwheels.farm.slow import Patience
from farms import begun, farm_of, jobs_for, machine, paths_in, site_in, wait_for


def test_a_killed_worker_is_replaced_and_its_job_done_once_more(tmp_path: Path) -> None:
    with farm_of(tmp_path) as farm, RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        (farm.events / "hang-a").touch()
        (job,) = jobs_for("a")
        future = executor.submit(job)
        wait_for(lambda: begun(farm.events, "build x86 a"))
        ((command, _),) = begun(farm.events, "build x86 a")
        farm.worker_of(command).kill()
        wait_for(lambda: not psutil.pid_exists(command))
        wait_for(lambda: len(begun(farm.events, "build x86 a")) == 2)
        (farm.events / "hang-a").unlink()
        assert future.result(60).code == 0
        wait_for(lambda: len(executor.machines()) == 2)


def test_a_job_that_ends_every_worker_is_given_up(tmp_path: Path) -> None:
    with farm_of(tmp_path, ("one",)) as farm, RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        (farm.events / "hang-a").touch()
        (job,) = jobs_for("a")
        future = executor.submit(job)
        seen: set[int] = set()
        while not future.done():
            for command, _ in begun(farm.events, "build x86 a"):
                if command not in seen:
                    farm.worker_of(command).kill()
                    seen.add(command)
            time.sleep(0.05)
        assert isinstance(future.exception(), FarmError)
        assert "ended every worker that began it" in str(future.exception())
        assert len(seen) == 3


def test_without_a_scheduler_the_run_ends_with_an_error(tmp_path: Path) -> None:
    with farm_of(tmp_path, ("one",)) as farm, RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        (farm.events / "hang-a").touch()
        (job,) = jobs_for("a")
        future = executor.submit(job)
        wait_for(lambda: begun(farm.events, "build x86 a"))
        ((command, _),) = begun(farm.events, "build x86 a")
        farm.process.kill()
        wait_for(lambda: not psutil.pid_exists(command))
        assert isinstance(future.exception(60), FarmError)
        with pytest.raises(FarmError, match="scheduler cannot be reached"):
            executor.submit(jobs_for("b")[0])


def test_a_worker_whose_disk_is_full_leaves_its_jobs_to_others(tmp_path: Path) -> None:
    with farm_of(tmp_path) as farm, RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        (farm.events / "fail-a").write_text(f"{DiskFullError.exit_code} 0")
        (job,) = jobs_for("a")
        future = executor.submit(job)
        assert future.result(60).code == 0
        wait_for(lambda: len(executor.machines()) == 1)
        ((_, first), (_, second)) = begun(farm.events, "build x86 a")
        assert first != second, "another machine did it"


def test_a_slow_worker_is_overtaken_and_what_follows_is_done(tmp_path: Path, reporter: Reporter) -> None:
    """Kernels hang on one worker; an idle one compiles them, and wheels and tests go on with its."""
    patience = Patience(times=0, least=0.5, every=0.1)
    with (
        farm_of(tmp_path / "farm") as farm,
        RemoteExecutor(farm.address, read_certificates(farm.keys), patience=patience) as executor,
    ):
        (farm.events / "slow-a").touch()
        jobs = jobs_for("a", "b", level="smoke", kernels="k")
        came = run_batch(jobs, executor, Journal(tmp_path / "dist"), paths_in(tmp_path), reporter)
        assert [(one.state, one.error) for one in came] == [("done", None)] * len(jobs)
        ((slow, first), (_, second)) = begun(farm.events, "kernels x86 a")
        assert first != second, "another worker did it"
        wait_for(lambda: not psutil.pid_exists(slow))
        # The worker that was overtaken does jobs again.
        futures = [executor.submit(job) for job in jobs_for("c", "d")]
        (farm.events / "hang-c").touch()
        (farm.events / "hang-d").touch()
        wait_for(lambda: all(future.done() for future in futures) or len(executor.machines()) == 2)
        (farm.events / "hang-c").unlink()
        (farm.events / "hang-d").unlink()
        assert {future.result(60).code for future in futures} == {0}
    wheels = sorted(path.read_text().splitlines()[0] for path in (tmp_path / "dist").rglob("*.whl"))
    assert wheels == ["x86 a", "x86 b"], "each wheel once"


def test_what_has_come_home_is_not_made_again_when_its_worker_goes(tmp_path: Path) -> None:
    with farm_of(tmp_path, ("one",)) as farm, RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        first, second = jobs_for("a", "b")
        assert executor.submit(first).result(60).code == 0
        (farm.events / "hang-b").touch()
        future = executor.submit(second)
        wait_for(lambda: begun(farm.events, "build x86 b"))
        farm.worker_of(begun(farm.events, "build x86 b")[0][0]).kill()
        wait_for(lambda: len(begun(farm.events, "build x86 b")) == 2)
        (farm.events / "hang-b").unlink()
        assert future.result(60).code == 0
        assert len(begun(farm.events, "build x86 a")) == 1


def test_one_client_that_gives_up_leaves_the_others_theirs(tmp_path: Path) -> None:
    with farm_of(tmp_path, ("one",)) as farm, RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        (farm.events / "hang-a").touch()
        (job,) = jobs_for("a")
        with RemoteExecutor(farm.address, read_certificates(farm.keys)) as other:
            futures = [one.submit(job) for one in (executor, other)]
            wait_for(lambda: begun(farm.events, "build x86 a"))
        assert futures[1].exception(60) is not None
        assert not futures[0].done()
        (farm.events / "hang-a").unlink()
        assert futures[0].result(60).code == 0
        assert len(begun(farm.events, "build x86 a")) == 1


def test_a_job_for_one_worker_waits_for_its_successor(tmp_path: Path) -> None:
    patience = Patience(every=0.1)
    with (
        farm_of(tmp_path) as farm,
        RemoteExecutor(farm.address, read_certificates(farm.keys), patience=patience) as executor,
    ):
        (farm.events / "hang-a").touch()
        before, job = jobs_for("a", "b")
        futures = [executor.submit(each, avoid=["one"]) for each in (before, job)]
        wait_for(lambda: begun(farm.events, "build x86 a"))
        farm.worker_of(begun(farm.events, "build x86 a")[0][0]).kill()
        (farm.events / "hang-a").unlink()
        assert {future.result(60).by for future in futures} == {"two"}


def test_a_job_may_be_given_while_the_one_worker_for_it_is_started_again(tmp_path: Path) -> None:
    """As the third opinion about a wheel may be."""
    with farm_of(tmp_path) as farm, RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        (farm.events / "hang-a").touch()
        before, job = jobs_for("a", "b")
        executor.submit(before, avoid=["one"])
        wait_for(lambda: begun(farm.events, "build x86 a"))
        farm.worker_of(begun(farm.events, "build x86 a")[0][0]).kill()
        wait_for(lambda: "two" not in executor.machines())
        (farm.events / "hang-a").unlink()
        assert executor.submit(job, avoid=["one"]).result(60).by == "two"
        with pytest.raises(FarmError, match="no machine can do wheel x86 b"):
            executor.submit(job.model_copy(update={"key": "another"}), avoid=["one", "two"])


def test_a_job_that_nobody_can_do_any_more_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.farm.remote.LOST_SECONDS", 1.0)
    patience = Patience(every=0.1)
    with (
        farm_of(tmp_path, ("one",)) as farm,
        RemoteExecutor(farm.address, read_certificates(farm.keys), patience=patience) as executor,
    ):
        (farm.events / "fail-a").write_text(str(DiskFullError.exit_code))
        (job,) = jobs_for("a")
        with pytest.raises(FarmError, match="no worker of the farm can do wheel x86 a any more"):
            executor.submit(job).result(60)


def test_a_wheel_that_was_sent_to_a_worker_which_goes_is_sent_again(tmp_path: Path) -> None:
    wheel, parity = jobs_for("a", level="smoke")
    with LocalExecutor(site_in(tmp_path / "here"), machine()) as local:
        done = local.submit(wheel).result()
    with farm_of(tmp_path) as farm, RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        executor.know(done, tmp_path / "here" / "dist")
        (farm.events / "hang-parity-a").touch()
        future = executor.submit(parity)
        wait_for(lambda: begun(farm.events, "parity x86"))
        (holder,) = executor._farm.client.who_has(list(executor._results.futures.values())[:1]).values()
        assert len(holder) == 1
        ((command, _),) = begun(farm.events, "parity x86")
        farm.worker_of(command).kill()
        wait_for(lambda: len(begun(farm.events, "parity x86")) == 2)
        (farm.events / "hang-parity-a").unlink()
        assert (future.result(60).code, future.result().sha256) == (0, done.sha256)


CLIENT = """
import sys
from pathlib import Path
from cpuwheels.farm.remote import RemoteExecutor
from cpuwheels.farm.security import read_certificates
from cpuwheels.farm.slow import Patience
from farms import jobs_for

if __name__ == "__main__":
    executor = RemoteExecutor(sys.argv[1], read_certificates(Path(sys.argv[2])))
    executor.submit(jobs_for("a")[0]).result()
"""


def test_what_a_killed_client_wanted_is_ended(tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(CLIENT)
    with farm_of(tmp_path, ("one",)) as farm:
        (farm.events / "hang-a").touch()
        command = [sys.executable, tmp_path / "client.py", farm.address, farm.keys]
        client = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
        wait_for(lambda: begun(farm.events, "build x86 a"))
        ((build, _),) = begun(farm.events, "build x86 a")
        client.kill()
        client.wait()
        wait_for(lambda: not psutil.pid_exists(build))
        # The worker is free for others.
        with RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
            assert executor.submit(jobs_for("b")[0]).result(60).code == 0


@pytest.mark.parametrize("poisoned", ["one", "three"])
def test_wrong_bytes_of_a_poisoned_worker_are_found_and_not_taken(
    tmp_path: Path, reporter: Reporter, poisoned: str
) -> None:
    told: list[str] = []
    with (
        farm_of(tmp_path / "farm", ("one", "two", "three"), poisoned=(poisoned,)) as farm,
        RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor,
    ):
        jobs = jobs_for("a", "b", "c", "d", level="smoke", kernels="k")
        opinions = Opinions(executor, told.append, executor.leave_out)
        came = run_batch(jobs, executor, Journal(tmp_path / "dist"), paths_in(tmp_path), reporter, opinions)
        wrong = {str(one.job): one.error for one in came if one.error}
        left = set(executor.machines())
    contents = {path.read_text().splitlines()[0] for path in (tmp_path / "dist").rglob("*.whl")}
    assert contents <= {f"x86 {source}" for source in "abcd"}, "no wrong wheel came home"
    if poisoned not in left:
        assert any(line.startswith(f"{poisoned} made other bytes") for line in told)
    # Once it is left out, two are not enough to tell who is wrong, but they agree.
    assert wrong == {}
    assert len(contents) == 4
    assert left >= {"one", "two", "three"} - {poisoned}


def test_without_second_opinions_wrong_bytes_are_taken(tmp_path: Path, reporter: Reporter) -> None:
    """What the test above would not find if the made-up program made the same bytes always."""
    with (
        farm_of(tmp_path / "farm", ("one",), poisoned=("one",)) as farm,
        RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor,
    ):
        run_batch(jobs_for("a"), executor, Journal(tmp_path / "dist"), paths_in(tmp_path), reporter)
    (wheel,) = (tmp_path / "dist").rglob("*.whl")
    assert wheel.read_text().startswith("x86 a and something else")
