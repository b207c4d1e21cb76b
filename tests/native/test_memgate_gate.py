"""The gate: who starts when, and what happens to those that wait."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from gate_folder import MIB, Gate, finish, most_together


def until(condition, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not come about in time"
        time.sleep(0.01)


def test_never_more_than_the_cpus(gate: Gate):
    gate.settings(cpus=3, mib=10_000)
    assert finish(*[gate.sleep(f"{number}.o", 0.1) for number in range(12)]) == [(0, "")] * 12
    assert most_together(gate.records(), "jobs") == 3
    assert {record["lane"] for record in gate.records()} == {0, 1, 2}


def test_never_more_than_the_room(gate: Gate):
    gate.settings(cpus=8, mib=400)
    sizes = [300, 150, 90, 60, 220, 120, 40, 40, 399]
    gate.expect(**{f"{number}.o": (1, size) for number, size in enumerate(sizes)})
    finish(*[gate.sleep(f"{number}.o", 0.1) for number in range(len(sizes))])
    assert len(gate.records()) == len(sizes)
    assert 300 * MIB < most_together(gate.records(), "expected_bytes") <= 400 * MIB


def test_small_ones_go_on_while_a_large_one_waits(gate: Gate):
    gate.settings(cpus=2, mib=400)
    gate.expect(first=(1, 200), large=(9, 300), small=(0.1, 100))
    first = gate.sleep("first", 1)
    until((gate.folder / "table").exists)
    time.sleep(0.1)
    large = gate.sleep("large", 0)
    time.sleep(0.1)
    small = gate.sleep("small", 0)
    finish(small, large, first)
    assert gate.order() == ["first", "small", "large"]


def test_a_large_one_does_not_starve(gate: Gate):
    gate.settings(cpus=2, mib=400)
    # So little work that the small ones, each of which fits beside any other, would always come first.
    gate.expect(large=(1, 400), **{f"s{number}": (0.02, 100) for number in range(200)})
    waiting = [gate.sleep(f"s{number}", 0.02) for number in range(4)]
    large = gate.sleep("large", 0)
    waiting += [gate.sleep(f"s{number}", 0.02) for number in range(4, 200)]
    finish(large, *waiting)
    place = gate.order().index("large")
    assert place < 100  # 2 CPUs times a patience of 32, and those that had started


def test_longest_first(gate: Gate):
    gate.settings(cpus=1)
    gate.expect(block=(1, 10), a=(2, 10), b=(30, 10), c=(10, 10), d=(20, 10))
    block = gate.sleep("block", 0.5)
    time.sleep(0.2)
    finish(block, *[gate.sleep(name, 0) for name in "abcd"])
    assert gate.order() == ["block", "b", "d", "c", "a"]


def test_what_is_not_known_counts_as_the_default(gate: Gate):
    gate.settings(unknown_bytes=123 * MIB)
    finish(gate.sleep("new.o", 0))
    assert gate.records()[0]["expected_bytes"] == 123 * MIB


def test_larger_than_the_room_runs_alone(gate: Gate):
    gate.settings(cpus=4, mib=400)
    gate.expect(huge=(5, 9000), other=(1, 1))
    finish(gate.sleep("huge", 0.2), gate.sleep("other", 0.1))
    assert most_together(gate.records(), "jobs") == 1


@pytest.mark.parametrize("status", [1, 2, 130])
def test_failure_calls_off_those_that_wait(gate: Gate, status):
    gate.settings(cpus=1)
    failing = gate.start("sh", "-c", f"sleep 0.5; exit {status}", "-o", "bad.o", build="one")
    time.sleep(0.2)
    same = [gate.sleep(f"{number}.o", 0, build="one") for number in range(3)]
    other, nameless = gate.sleep("other.o", 0, build="two"), gate.sleep("nameless.o", 0)
    assert finish(failing) == [(status, "")]
    assert finish(*same) == [(125, "memgate: not started: another job failed\n")] * 3
    assert finish(other, nameless) == [(0, "")] * 2
    late = gate.sleep("late.o", 0, build="one")
    assert finish(late)[0][0] == 125
    assert {record["output"] for record in gate.records()} == {"bad.o", "other.o", "nameless.o"}


def test_room_of_a_killed_launcher_is_found(gate: Gate):
    gate.settings(cpus=1)
    holder = gate.start("sh", "-c", "exec sleep 60", "-o", "a.o")
    time.sleep(0.2)
    follower = gate.sleep("b.o", 0)
    time.sleep(0.2)
    assert follower.poll() is None
    holder.kill()
    assert finish(follower, seconds=5) == [(0, "")]
    holder.communicate()


def test_room_stays_taken_while_an_orphan_lives(gate: Gate):
    """A compiler's driver ends when its launcher is killed; the compiler itself may go on for a while."""
    gate.settings(cpus=1)
    script = (
        "import os, sys, time\nif os.fork() == 0:\n    print(os.getpid(), flush=True)\n    time.sleep(60)\nos.wait()"
    )
    holder = gate.start(sys.executable, "-c", script, "-o", "a.o")
    assert holder.stdout is not None
    orphan = int(holder.stdout.readline())
    holder.kill()
    holder.wait()
    follower = gate.sleep("b.o", 0)
    time.sleep(2.5)
    assert follower.poll() is None
    os.kill(orphan, signal.SIGKILL)
    assert finish(follower, seconds=5) == [(0, "")]
    holder.communicate()


def test_waiting_launcher_ends_at_a_signal(gate: Gate):
    gate.settings(cpus=1)
    holder, waiting = gate.start("sleep", "60"), None
    time.sleep(0.2)
    waiting = gate.sleep("b.o", 0)
    time.sleep(0.2)
    waiting.terminate()
    assert finish(waiting)[0][0] == -signal.SIGTERM
    holder.terminate()
    assert finish(holder)[0][0] == 128 + signal.SIGTERM
    assert finish(gate.sleep("c.o", 0), seconds=5) == [(0, "")]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (None, "cannot read"),
        ("", "must be there and above 0"),
        ("cpus 0\nbytes 5\n", "must be there and above 0"),
        ("cpus 2\nbytes 0\n", "must be there and above 0"),
        ("cpus 2\nbytes -5\n", "must be there and above 0"),
        ("garbage\n\ncpus two\nbytes 5\n", "must be there and above 0"),
    ],
)
def test_settings_that_cannot_be_used(gate: Gate, settings, words):
    (gate.folder / "settings").unlink()
    if settings is not None:
        (gate.folder / "settings").write_text(settings)
    ((status, said),) = finish(gate.start("true"))
    assert status == 125
    assert words in said
    assert str(gate.folder) in said


def test_table_that_cannot_be_used(gate: Gate):
    (gate.folder / "table").mkdir()
    ((status, said),) = finish(gate.start("true"))
    assert status == 125
    assert "cannot use" in said
    assert "table" in said


@pytest.mark.parametrize("content", [b"", b"\xff" * 999_999, b"short"])
def test_table_of_another_kind_is_made_anew(gate: Gate, content):
    (gate.folder / "table").write_bytes(content)
    assert finish(gate.sleep("a.o", 0), gate.sleep("b.o", 0)) == [(0, "")] * 2


def test_full_disk_is_said(gate: Gate):
    """A table on a full disk must not end the launcher with SIGBUS later."""
    script = 'ulimit -f 100; exec "$@"'
    command = [str(gate.memgate), "--gate", str(gate.folder), "--", "true"]
    done = subprocess.run(
        ["bash", "-c", f"trap '' XFSZ; {script}", "bash", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 125
    assert "cannot use" in done.stderr


def test_launchers_killed_at_random_leave_no_trace(gate: Gate):
    gate.settings(cpus=3)
    jobs = [gate.sleep(f"{number}.o", 0.05) for number in range(60)]
    for index, job in enumerate(jobs):
        if index % 2:
            time.sleep(0.01)
            job.kill()
    finish(*jobs)
    assert [job.returncode for job in jobs[::2]] == [0] * 30
    began = time.monotonic()
    assert finish(*[gate.sleep(f"after{number}.o", 0.3) for number in range(3)]) == [(0, "")] * 3
    assert time.monotonic() - began < 2.0


def test_status(gate: Gate):
    gate.settings(cpus=1, mib=1000)
    gate.expect(**{"a.o": (35.48, 50)})
    job = gate.hold("a.o", 100, 1.0)
    time.sleep(0.1)
    waiting = [gate.sleep(f"{number}.o", 0, build="") for number in range(3)]
    time.sleep(1.6)
    during = status(gate)
    assert (during["running"], during["waiting"]) == (1, 3)
    assert [running["expected"] for running in during["jobs"]] == [35.48]
    assert 1.5 < during["jobs"][0]["age"] < 2.5
    assert 100 * MIB < during["bytes"] <= during["peak_bytes"] < 200 * MIB
    finish(job, *waiting)
    after = status(gate)
    assert (after["running"], after["waiting"], after["bytes"], after["jobs"]) == (0, 0, 0, [])
    assert after["peak_bytes"] == during["peak_bytes"]
    finish(gate.sleep("next.o", 0, build="another"))
    assert status(gate)["peak_bytes"] < 100 * MIB


def status(gate: Gate) -> dict[str, Any]:
    done = subprocess.run([gate.memgate, "--status", gate.folder], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_status_of_a_folder_that_is_none(gate: Gate, tmp_path):
    done = subprocess.run([gate.memgate, "--status", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "settings" in done.stderr
