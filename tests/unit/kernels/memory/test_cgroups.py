"""Kills for memory are counted in the nearest group that tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.kernels.memory.cgroups import groups, oom_kills

if TYPE_CHECKING:
    from pathlib import Path


V2 = "30 23 0:26 / {point} rw - cgroup2 cgroup2 rw"
V1 = "30 23 0:26 / {point} rw - cgroup cgroup rw,memory"


def make_proc(root: Path, mount: str, membership: str, kills: int = 0) -> tuple[Path, Path]:
    point = root / "cgroup"
    point.mkdir()
    (root / "self").mkdir()
    (root / "self/mountinfo").write_text(mount.format(point=point) + "\n")
    (root / "self/cgroup").write_text(membership + "\n")
    (root / "vmstat").write_text(f"pgfree 7\noom_kill {kills}\n")
    return root, point


@pytest.mark.parametrize(
    ("mount", "membership", "file"), [(V2, "0::/a/b", "memory.events"), (V1, "4:memory:/a/b", "memory.oom_control")]
)
def test_group_counts_before_the_machine(tmp_path, mount, membership, file):
    proc, point = make_proc(tmp_path, mount, membership, kills=50)
    (point / "a/b").mkdir(parents=True)
    (point / "a" / file).write_text("oom 9\noom_kill 3\n")
    assert oom_kills(proc) == 3
    (point / "a/b" / file).write_text("oom 1\noom_kill 1\n")
    assert oom_kills(proc) == 1


def test_machine_counts_where_no_group_does(tmp_path):
    proc, _ = make_proc(tmp_path, V2, "0::/", kills=50)
    assert oom_kills(proc) == 50


def test_own_group_comes_first(tmp_path):
    proc, point = make_proc(tmp_path, V2, "0::/a/b")
    assert [group.folder for group in groups("memory", proc)] == [point / "a/b", point / "a", point]


def test_no_proc_at_all(tmp_path):
    assert groups("memory", tmp_path) == []
    assert oom_kills(tmp_path) == 0
