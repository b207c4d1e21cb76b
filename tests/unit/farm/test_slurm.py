"""Jobs of SLURM, with programs in place of sbatch, squeue and scancel that run the script on this machine.

test_farm_slurm.py has a real SLURM; here are its faults.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cpuwheels.core.errors import FarmError
from cpuwheels.farm import slurm
from cpuwheels.farm.slurm import ATTEMPTS, jobs_of
from cpuwheels.farm.slurm_job import Slurm

SBATCH = """#!/bin/sh
[ ! -e "$FOLDER/refuse" ] || { echo "sbatch: error: invalid partition specified: none" >&2; exit 1; }
job=$(($(cat "$FOLDER/last" 2>/dev/null || echo 100) + 1))
echo $job > "$FOLDER/last"
echo "$@" >> "$FOLDER/submitted"
cat > "$FOLDER/script-$job"
for word; do case $word in --array=*) array=${word#*=} ;; --output=*) output=${word#*=} ;; esac; done
for number in $(echo "$array" | tr , ' '); do
  log=$(echo "$output" | sed "s/%A/$job/; s/%a/$number/")
  SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$number setsid sh "$FOLDER/script-$job" > "$log" 2>&1 &
  echo "$job $number $!" >> "$FOLDER/jobs"
done
echo "$job;cluster"
"""
SQUEUE = """#!/bin/sh
[ ! -e "$FOLDER/silent" ] || { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
[ -e "$FOLDER/jobs" ] || exit 0
while read -r job number process; do ! kill -0 "$process" 2>/dev/null || echo "$job $number"; done < "$FOLDER/jobs"
"""
SCANCEL = """#!/bin/sh
[ ! -e "$FOLDER/jobs" ] || while read -r job number process; do kill "$process" 2>/dev/null; done < "$FOLDER/jobs"
echo "$@" >> "$FOLDER/cancelled"
"""
# A worker does as files tell it: it joins, or ends.
WORKER = """#!/bin/sh
echo "$@" >> "$FOLDER/begun"
while [ "$1" != --name ]; do shift; done
[ ! -e "$FOLDER/broken" ] || { echo "there is no farm.pem"; exit 3; }
touch "$FOLDER/joined/$2" "$4/store"
[ ! -e "$FOLDER/once" ] || { rm "$FOLDER/once"; sleep 0.5; exit 1; }
exec sleep 100
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL), ("worker", WORKER)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "joined").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setattr(slurm, "ASK_SECONDS", 0.2)
    monkeypatch.setattr(slurm, "_LOOK_SECONDS", 0.05)
    return tmp_path


def wanted(folder: Path, workers: int = 2, *options: str) -> Slurm:
    more = ("--memory", "8G")
    return Slurm(workers, (str(folder / "worker"),), folder / "logs", options, str(folder / "the disk"), more)


def joined(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "joined").iterdir())


def run(folder: Path, jobs: Slurm, until: Callable[[list[str]], bool]) -> list[str]:
    """Have jobs until something is so, and return what was told."""
    told: list[str] = []

    async def main() -> None:
        async with jobs_of(jobs, "tls://10.0.0.1:9", folder / "keys", lambda: joined(folder), told.append) as check:
            end = time.monotonic() + 30
            while not until(told):
                assert time.monotonic() < end, told
                check()
                await asyncio.sleep(0.02)

    try:
        asyncio.run(main())
    finally:
        if (folder / "jobs").exists():
            processes = [int(line.split()[2]) for line in (folder / "jobs").read_text().splitlines()]
            assert not any(psutil.pid_exists(one) for one in processes), "no job is left"
    return told


def test_each_worker_is_a_job_with_a_folder_of_its_own_that_goes_with_it(folder: Path) -> None:
    base = folder / "the disk" / f"cpuwheels-farm-{os.getuid()}"
    killed = base / "slurm-1-1"
    killed.mkdir(parents=True)
    (killed / "stores").touch()
    seen: list[Path] = []

    def until(_: list[str]) -> bool:
        seen[:] = sorted(path.parent for path in base.glob("*/store"))
        return len(joined(folder)) == 2 and len(seen) == 2

    run(folder, wanted(folder, 2, "--mem=32G", "--array=7"), until)
    assert joined(folder) == ["slurm-101-1", "slurm-101-2"]
    assert [path.name for path in seen] == joined(folder)
    assert list(base.iterdir()) == [base / ".lock"], "nor what a job that was killed had left"
    begun = (folder / "begun").read_text().splitlines()
    expected = f"farm worker --farm tls://10.0.0.1:9 --farm-keys {folder}/keys --memory 8G --name slurm-101-"
    assert all(line.startswith(expected) for line in begun)
    (submitted,) = (folder / "submitted").read_text().splitlines()
    words = submitted.split()
    assert words[0] == "--mem=32G"
    assert words.index("--array=7") < words.index("--array=1,2"), "what stands last counts"
    (name,) = (word.partition("=")[2] for word in words if word.startswith("--job-name="))
    assert (folder / "cancelled").read_text() == f"--name={name}\n"
    assert "#SBATCH --signal=B:TERM@60" in (folder / "script-101").read_text()


def test_a_job_that_ends_is_replaced(folder: Path) -> None:
    (folder / "once").touch()
    told = run(folder, wanted(folder, 1), lambda _: len(joined(folder)) == 2)
    assert joined(folder) == ["slurm-101-1", "slurm-102-1"]
    assert "job 101_1 has ended; another one is submitted" in told


def test_a_worker_that_never_joins_is_shown_with_what_it_printed(folder: Path) -> None:
    (folder / "broken").touch()
    with pytest.raises(FarmError, match="before its worker had joined") as raised:
        run(folder, wanted(folder, 1), lambda _: False)
    assert "there is no farm.pem" in str(raised.value)
    assert "scontrol show job 101_1" in str(raised.value)
    assert len((folder / "submitted").read_text().splitlines()) == 1


def test_a_worker_is_given_up_after_some_attempts_and_the_farm_with_the_last_one(folder: Path) -> None:
    (folder / "once").touch()
    told: list[str] = []

    def until(now: list[str]) -> bool:
        told[:] = now
        if joined(folder):
            (folder / "broken").touch()
        return False

    with pytest.raises(FarmError, match="no job of SLURM brings a worker any more"):
        run(folder, wanted(folder, 1), until)
    assert sum("before its worker had joined" in line for line in told) == ATTEMPTS
    assert "that was the last attempt" in told[-1]
    assert "there is no farm.pem" in told[-1]


def test_a_controller_that_does_not_answer_is_asked_again(folder: Path) -> None:
    def until(told: list[str]) -> bool:
        if joined(folder):
            (folder / "silent").touch()
        if any("does not answer" in line for line in told):
            (folder / "silent").unlink()
            return True
        return False

    told = run(folder, wanted(folder, 1), until)
    assert sum("does not answer" in line for line in told) == 1
    assert "Unable to contact slurm controller" in told[-1]


def test_what_sbatch_refuses_is_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "refuse").touch()
    with pytest.raises(FarmError, match="sbatch ended with status 1") as raised:
        run(folder, wanted(folder, 1, "--partition=none"), lambda _: False)
    assert "invalid partition specified: none" in str(raised.value)
    assert "--partition=none" in str(raised.value)
    assert (folder / "cancelled").exists(), "whatever came of it"
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FarmError, match="there is no sbatch") as raised:
        run(folder, wanted(folder), lambda _: False)
    assert "from which jobs are submitted" in str(raised.value)
