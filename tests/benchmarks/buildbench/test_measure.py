"""Measuring commands whose cost is known."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from buildbench.measure import Usage, measure
from buildbench.memory import held_below

from cpuwheels.core.errors import CommandError

MIB = 1 << 20
BUSY = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
# Two processes share what one of them has filled: 64 MiB once, not twice.
SHARING = (
    "import mmap, os, time\n"
    "area = mmap.mmap(-1, 64 << 20)\n"
    "for place in range(0, 64 << 20, 4096): area[place] = 1\n"
    "child = os.fork()\n"
    "sum(area[::4096])\n"
    "time.sleep(3)\n"
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
    assert 0.001 < usage.pace < 0.5


def test_memory_of_all_processes_counts_shared_pages_once(tmp_path: Path) -> None:
    usage = python(SHARING, tmp_path / "log")
    assert 64 * MIB < usage.peak < 110 * MIB
    assert usage.group_peak is None or usage.group_peak > 64 * MIB


def test_a_command_that_fails_raises_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        python("raise SystemExit('no such kernel')", tmp_path / "log")
    assert "no such kernel" in str(caught.value)


def test_a_process_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    """The list of processes is older than what is read of each."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (a) b) (c) S 5 7 7 0\n")
    assert held_below(5, proc=tmp_path) == 0


def test_a_copy_that_has_yet_to_start_a_program_does_not_count(tmp_path: Path) -> None:
    """Between fork and exec a process holds what its parent does."""
    for process, parent, command in ((5, 1, "pytest"), (7, 5, "pytest"), (8, 5, "ninja"), (9, 8, "ninja")):
        folder = tmp_path / str(process)
        folder.mkdir()
        (folder / "stat").write_text(f"{process} (x) S {parent} 7 7 0\n")
        (folder / "statm").write_text("9 3 1 0 0 0 0\n")
        (folder / "cmdline").write_text(command)
    assert held_below(5, proc=tmp_path) == 2 * 2 * os.sysconf("SC_PAGE_SIZE")


def test_processes_of_processes_count_and_others_do_not(tmp_path: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    for process, parent, statm in ((7, 5, "9 3 1"), (8, 7, "9999999 2000000 1"), (9, 1, "9 9 0"), (5, 1, "9 9 0")):
        folder = tmp_path / str(process)
        folder.mkdir()
        (folder / "stat").write_text(f"{process} (cc1 plus) S {parent} 7 7 0\n")
        (folder / "statm").write_text(f"{statm} 0 0 0 0\n")
        (folder / "smaps_rollup").write_text("55 - ff [rollup]\nRss: 9 kB\nPss:       100 kB\nPss_Dirty: 1 kB\n")
    (tmp_path / "self").mkdir()
    assert held_below(5, proc=tmp_path) == 2 * page + (100 << 10)
    assert held_below(9, proc=tmp_path) == 0
    resident = (3 + 2_000_000) * page
    assert held_below(5, resident - 1, proc=tmp_path) == 2 * page + (100 << 10)
    assert held_below(5, resident, proc=tmp_path) == 0


def test_what_this_process_holds_is_not_counted() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "data = bytearray(40 << 20); input()"], stdin=subprocess.PIPE
    ) as child:
        try:
            seen = 0
            deadline = time.monotonic() + 20
            while seen < 40 * MIB and time.monotonic() < deadline:
                seen = held_below(os.getpid())
                time.sleep(0.05)
        finally:
            child.kill()
    assert 40 * MIB < seen < 70 * MIB


def test_two_commands_in_turn() -> None:
    first = Usage(wall=1, cpu=2, peak=30, group_peak=None, others_cpu=1, pace=0.02)
    second = Usage(wall=4, cpu=5, peak=20, group_peak=7, others_cpu=0, pace=0.01)
    both = Usage(wall=5, cpu=7, peak=30, group_peak=7, others_cpu=1, pace=pytest.approx(0.012))
    assert first.then(second) == both
    assert first.then(first).group_peak is None
