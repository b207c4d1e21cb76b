"""What the engine of a farm takes: the figures that are made of batches, and workers in control groups of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from farmbench.engine import Results, Turn, _groups, _used

from cpuwheels.kernels.memory.cgroup_limit import places


def turn(workers: int, wall: float, cpu: float, engine: float) -> Turn:
    return Turn(workers=workers, wall=wall, cpu=cpu, engine=engine, jobs=4, job_seconds=40.0)


FOUND = Results(
    when="2026-11-27",
    commit="c",
    machine="2 CPUs",
    groups=True,
    turns=(
        *(turn(0, wall, 100.0, 0.0) for wall in (40.5, 41.0, 90.0)),
        *(turn(1, wall, 101.0, 0.8) for wall in (41.6, 41.2, 95.0)),
        *(turn(3, 25.0, 103.0, engine) for engine in (1.0, 1.5, 9.0)),
    ),
)


def test_figures_are_medians_of_batches_with_as_many_workers() -> None:
    assert FOUND.seconds_a_job() == pytest.approx(1.6 / 4)
    assert FOUND.part() == pytest.approx(1.5 / 100)
    lines = FOUND.lines()
    assert lines[0].startswith("one machine: 41.0 s, 100.0 CPU seconds, 1.000 of one machine's")
    assert lines[2].startswith("farm of 3: 25.0 s, 103.0 CPU seconds, 1.030 of one machine's; the engine's own 1.50")
    assert lines[3].startswith("a job takes 0.40 s more")
    assert "1.50 % of the CPU seconds (2 % is allowed)" in lines[4]


BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
FARM = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}]); print(flush=True); sys.stdin.read()"


def test_what_a_worker_started_is_not_the_engines() -> None:
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FARM!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as farm:
        assert farm.stdin is not None
        assert farm.stdout is not None
        farm.stdout.readline()
        used = _used(psutil.Process(farm.pid))
        farm.stdin.close()
    assert used.all - used.own >= 0.3


def test_each_worker_has_a_control_group_as_long_as_it_is_measured() -> None:
    if not places():
        pytest.skip("no control group can be made here")
    # As multiprocessing starts them, and another process that is no worker.
    commands = [["sleep", "60"], *[[sys.executable, "-c", "import time; time.sleep(60)  # spawn_main"]] * 2]
    workers = f"import subprocess; [subprocess.Popen(one) for one in {commands!r}]; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", workers], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as farm:
        assert farm.stdin is not None
        assert farm.stdout is not None
        farm.stdout.readline()
        process = psutil.Process(farm.pid)
        children = process.children()
        with _groups(process) as count:
            texts = [Path(f"/proc/{child.pid}/cgroup").read_text() for child in children]
        for child in children:
            child.kill()
        farm.stdin.close()
    assert count in {0, 2}
    assert len(set(texts)) == (3 if count else 1)
    assert "worker" not in texts[0]
