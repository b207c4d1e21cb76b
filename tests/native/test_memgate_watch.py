"""The watch: jobs that need more than was expected, where no control group holds them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gate_folder import MIB, Gate, finish

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def test_the_newest_is_stopped_and_runs_again(gate: Gate):
    gate.settings(cpus=2, mib=400, watch=1)
    gate.expect(old=(5, 60), new=(5, 60))  # both need four times as much
    old = gate.hold("old", 240, 2)
    new = gate.hold("new", 240, 0.5)
    assert finish(old, new) == [(0, "")] * 2
    stopped = [record for record in gate.records() if record["stopped"]]
    assert [record["status"] for record in stopped] == [137]
    again = gate.attempts(stopped[0]["output"])[-1]
    assert (again["attempt"], again["status"], again["stopped"]) == (2, 0, False)
    other = next(r for r in gate.records() if r["output"] != again["output"])
    assert other["attempt"] == 1
    assert again["start"] >= other["start"] + other["wall"] - 0.01


def held(jobs: list[subprocess.Popen[str]]) -> int:
    """Return the bytes that all processes below some launchers hold of their own."""
    total = 0
    for job in jobs:
        with contextlib.suppress(psutil.Error):
            for member in psutil.Process(job.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    memory = member.memory_info()
                    total += memory.rss - memory.shared
    return total


def test_room_is_never_passed(gate: Gate):
    gate.settings(cpus=4, mib=500, watch=1)
    gate.expect(**{f"{number}": (1, 50) for number in range(6)})
    jobs = [gate.hold(f"{number}", 200, 0.3) for number in range(6)]
    most = 0
    while any(job.poll() is None for job in jobs):
        most = max(most, held(jobs))
        time.sleep(0.005)
    assert finish(*jobs) == [(0, "")] * 6
    assert 200 * MIB < most <= 500 * MIB
    assert any(record["stopped"] for record in gate.records())


def test_a_job_without_end_is_given_up(gate: Gate):
    gate.settings(cpus=2, mib=300, watch=1)
    endless = "import time\nblocks = []\nwhile True:\n    blocks.append(b'x' * (3 << 20)); time.sleep(0.01)"
    ((status, said),) = finish(gate.start(sys.executable, "-c", endless, "-o", "endless.o"))
    assert status == 137
    assert "endless.o was killed for memory" in said
    assert "300 MiB" in said
    assert all(record["tree_bytes"] <= 300 * MIB for record in gate.records())
    assert 2 <= len(gate.records()) <= 3


def test_half_written_output_goes(gate: Gate, tmp_path: Path):
    gate.settings(cpus=1, mib=100, watch=1)
    output = tmp_path / "x.o"
    endless = f"open({str(output)!r}, 'w').write('half')\nblocks = []\nwhile True: blocks.append(b'x' * (1 << 20))"
    finish(gate.start(sys.executable, "-c", endless, "-o", output))
    assert not output.exists()


def test_killed_by_the_system_runs_again_alone(gate: Gate, tmp_path: Path):
    """The driver's status 1 says nothing: the group's own count of kills does."""
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 0\noom_kill 0\n")
    gate.settings(cpus=2, mib=400, oom_events=events)
    script = f"if [ -e {tmp_path}/again ]; then exit 0; fi; touch {tmp_path}/again; echo oom_kill 1 > {events}; exit 1"
    assert finish(gate.start("sh", "-c", script, "-o", "x.o")) == [(0, "")]
    first, second = gate.records()
    assert (first["status"], second["status"]) == (1, 0)
    assert second["expected_bytes"] == 400 * MIB


def test_killed_by_the_system_twice_is_given_up(gate: Gate, tmp_path: Path):
    events = tmp_path / "memory.events"
    events.write_text("oom_kill 0\n")
    gate.settings(oom_events=events)
    script = f"read _ count < {events}; echo oom_kill $((count + 1)) > {events}; exit 1"
    ((status, said),) = finish(gate.start("sh", "-c", script, "-o", "x.o"))
    assert status == 137
    assert "x.o was killed for memory" in said
    assert len(gate.records()) == 2


def test_plain_failure_is_not_run_again(gate: Gate, tmp_path: Path):
    events = tmp_path / "memory.events"
    events.write_text("oom_kill 7\n")
    gate.settings(oom_events=events)
    assert finish(gate.start("sh", "-c", "echo wrong >&2; exit 1", "-o", "x.o")) == [(1, "wrong\n")]
    assert len(gate.records()) == 1


def test_without_the_watch_nothing_is_stopped(gate: Gate):
    gate.settings(cpus=1, mib=50)
    assert finish(gate.hold("x.o", 120, 0.2)) == [(0, "")]
    (record,) = gate.records()
    assert record["tree_bytes"] > 120 * MIB
    assert record["shared_bytes"] < 30 * MIB
