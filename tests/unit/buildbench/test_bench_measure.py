"""Measuring commands whose cost is known."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest
from buildbench.measure import Usage, held_bytes, measure

from cpuwheels.errors import CommandError

MIB = 1 << 20
BUSY = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
# Two processes share what one of them has filled: 64 MiB once, not twice.
SHARING = (
    "import mmap, os, time\n"
    "area = mmap.mmap(-1, 64 << 20)\n"
    "area.write(b'x' * (64 << 20))\n"
    "child = os.fork()\n"
    "sum(area[::4096])\n"
    "time.sleep(1.5)\n"
    "child and os.wait()\n"
)


def python(code: str, log: Path) -> Usage:
    return measure([sys.executable, "-c", code], log=log, env=os.environ)


def test_time_of_all_processes(tmp_path: Path) -> None:
    nested = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\ntime.sleep(0.5)\n"
    usage = python(nested, tmp_path / "log")
    assert 0.5 <= usage.cpu < 0.9
    assert usage.wall >= 1.0
    assert usage.others_cpu >= 0


def test_memory_of_all_processes_counts_shared_pages_once(tmp_path: Path) -> None:
    usage = python(SHARING, tmp_path / "log")
    assert 64 * MIB < usage.peak < 110 * MIB
    assert usage.group_peak is None or usage.group_peak > 64 * MIB


def test_a_command_that_fails_raises_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        python("raise SystemExit('no such kernel')", tmp_path / "log")
    assert "no such kernel" in str(caught.value)


def test_a_process_that_is_gone_holds_nothing() -> None:
    process = psutil.Popen([sys.executable, "-c", ""])
    process.wait()
    assert held_bytes(process) == 0
    assert held_bytes(psutil.Process()) > 5 * MIB


def test_two_commands_in_turn() -> None:
    first = Usage(wall=1, cpu=2, peak=30, group_peak=None, others_cpu=1)
    second = Usage(wall=4, cpu=5, peak=20, group_peak=7, others_cpu=0)
    assert first.then(second) == Usage(wall=5, cpu=7, peak=30, group_peak=7, others_cpu=1)
    assert first.then(first).group_peak is None
