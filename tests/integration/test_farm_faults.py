"""What goes wrong on a farm of real processes: killed workers, scheduler and clients, a full disk, wrong bytes."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from cpuwheels.core.errors import DiskFullError, FarmError
from cpuwheels.farm.remote import RemoteExecutor
from cpuwheels.farm.security import read_certificates
from farms import begun, farm_of, jobs_for, wait_for


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
