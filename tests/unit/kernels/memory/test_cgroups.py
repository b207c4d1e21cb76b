"""The control groups of this process, its own first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.kernels.memory.cgroups import groups

if TYPE_CHECKING:
    from pathlib import Path


V2 = "30 23 0:26 / {point} rw - cgroup2 cgroup2 rw"
V1 = "30 23 0:26 / {point} rw - cgroup cgroup rw,memory"


def make_proc(root: Path, mount: str, membership: str) -> tuple[Path, Path]:
    point = root / "cgroup"
    point.mkdir()
    (root / "self").mkdir()
    (root / "self/mountinfo").write_text(mount.format(point=point) + "\n")
    (root / "self/cgroup").write_text(membership + "\n")
    return root, point


@pytest.mark.parametrize(("mount", "membership"), [(V2, "0::/a/b"), (V1, "4:memory:/a/b")])
def test_own_group_comes_first(tmp_path, mount, membership):
    proc, point = make_proc(tmp_path, mount, membership)
    assert [group.folder for group in groups("memory", proc)] == [point / "a/b", point / "a", point]


def test_no_proc_at_all(tmp_path):
    assert groups("memory", tmp_path) == []
