"""What the engine of a farm takes: the figures that are made of batches, and workers in control groups of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from bisectbench.history import Repository
from buildbench.edit import KERNEL
from farmbench.engine import Bench, _add_commits, _groups, _used, _used_by_ended
from farmbench.engine_results import Results, Turn

from cpuwheels.kernels.memory.cgroup_limit import places


def turn(workers: int, wall: float, cpu: float, own: float) -> Turn:
    return Turn(workers=workers, wall=wall, cpu=cpu, own=own, jobs=4, job_seconds=40.0)


FOUND = Results(
    when="2026-11-27",
    commit="c",
    machine="2 CPUs",
    kernels=1,
    groups=True,
    turns=(
        *(turn(0, wall, 100.0, 2.0) for wall in (40.5, 41.0, 90.0)),
        *(turn(1, wall, 101.0, 2.8) for wall in (41.6, 41.2, 95.0)),
        *(turn(3, 25.0, 103.0, own) for own in (3.0, 3.5, 9.0)),
    ),
)


def test_figures_are_medians_of_batches_with_as_many_workers() -> None:
    assert FOUND.seconds_a_job() == pytest.approx(1.6 / 4)
    assert FOUND.part() == pytest.approx(1.5 / 100)
    lines = FOUND.lines()
    assert lines[0] == "4 jobs; commits that change kernels: 1"
    assert lines[1] == "one machine: 41.0 s, 100.0 CPU seconds, of them 2.00 without the jobs' commands"
    assert lines[3] == "farm of 3: 25.0 s, 103.0 CPU seconds, of them 3.50 without the jobs' commands"
    assert lines[4].startswith("a job takes 0.40 s more")
    assert lines[5].startswith("the engine adds 1.50 CPU seconds with 3 workers, 0.38 a job: 1.50 % of one machine's")


def test_each_round_has_commits_of_its_own(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("vllm/__init__.py", KERNEL):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("\n")
    bench = Bench(tmp_path, Repository(tmp_path / "clone"), "x86")
    bench.clone.release(tree, "1.2.3")
    seen = []
    for round_ in range(2):
        _add_commits(bench, 3, 1, round_)
        log = bench.clone.git("log", "--reverse", "--format=%H", "--name-only", "before..main").split()
        assert log[1::2] == ["vllm/change_0.py", "vllm/change_1.py", KERNEL]
        seen.append(set(log[::2]))
    assert not seen[0] & seen[1]


# Longer than the tests ask for: the kernel gives whole hundredths of a second, of user and system time of each process.
BUSY = "import time; end = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
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


def test_what_a_command_started_is_not_its_own() -> None:
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    with subprocess.Popen([sys.executable, "-c", inner]) as alone:
        assert _used_by_ended(alone.pid).own < 0.3
    with subprocess.Popen([sys.executable, "-c", BUSY + "\ntime.sleep(0.5)"]) as busy:
        assert 0.3 <= _used_by_ended(busy.pid).own < 2


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
