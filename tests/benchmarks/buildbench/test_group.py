"""Control groups that count: of both versions on made-up file systems, and a real one where there is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from buildbench.group import counted

FILES = ("cgroup.procs", "cgroup.subtree_control", "memory.max", "memory.peak", "memory.max_usage_in_bytes")


def machine(tmp: Path, kind: str, member: str) -> tuple[Path, Path]:
    """Make a proc file system with one cgroup mount; return both."""
    proc, mount = tmp / "proc", tmp / "cgroup"
    options, controllers = ("rw", "") if kind == "cgroup2" else ("rw,memory", "memory")
    (proc / "self").mkdir(parents=True)
    (mount / member.strip("/")).mkdir(parents=True)
    (proc / "self/mountinfo").write_text(f"30 20 0:1 / {mount} rw - {kind} {kind} {options}\n")
    (proc / "self/cgroup").write_text(f"{'0' if kind == 'cgroup2' else '4'}:{controllers}:{member}\n")
    return proc, mount


@pytest.fixture
def born(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups come with their files, as the kernel makes them, and take them along when they go."""
    mkdir, rmdir = Path.mkdir, Path.rmdir

    def new(path: Path, *arguments: object, **options: object) -> None:
        mkdir(path, *arguments, **options)
        for file in FILES:
            (path / file).touch()

    def gone(path: Path) -> None:
        for file in FILES:
            (path / file).unlink(missing_ok=True)
        rmdir(path)

    monkeypatch.setattr(Path, "mkdir", new)
    monkeypatch.setattr(Path, "rmdir", gone)


@pytest.mark.usefixtures("born")
def test_version_1_counts_in_the_group_itself(tmp_path: Path) -> None:
    proc, mount = machine(tmp_path, "cgroup", "/user")
    with counted(proc) as group:
        assert group is not None
        folder = group.file.parent
        assert folder.parent == mount / "user"
        assert group.prefix[-1] == str(folder / "cgroup.procs")
        assert group.peak() is None
        (folder / "memory.max_usage_in_bytes").write_text("4096\n")
        assert group.peak() == 4096
    assert not folder.exists()


@pytest.mark.usefixtures("born")
def test_version_2_runs_the_command_in_a_group_within(tmp_path: Path) -> None:
    """The build makes its limited group beside the command's, so both are below the one that counts."""
    proc, mount = machine(tmp_path, "cgroup2", "/user")
    (mount / "user/memory.max").write_text("max\n")
    with counted(proc) as group:
        assert group is not None
        folder = group.file.parent
        assert group.prefix[-1] == str(folder / "command/cgroup.procs")
        assert (folder / "cgroup.subtree_control").read_text() == "+memory"
        (folder / "memory.peak").write_text("8192\n")
        assert group.peak() == 8192
    assert not folder.exists()


def test_what_a_killed_run_left_is_removed(tmp_path: Path, born: None) -> None:
    assert born is None
    proc, mount = machine(tmp_path, "cgroup", "/user")
    left = mount / "user/bench-cpuwheels-1"
    left.mkdir()
    with counted(proc):
        assert not left.exists()


def test_no_group_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    with counted(tmp_path) as group:
        assert group is None


def test_a_folder_without_the_kernels_files_is_no_group(tmp_path: Path) -> None:
    proc, mount = machine(tmp_path, "cgroup", "/user")
    with counted(proc) as group:
        assert group is None
    assert list((mount / "user").iterdir()) == []


def test_a_real_group_counts_where_one_can_be_made() -> None:
    with counted() as group:
        command = [sys.executable, "-c", "data = bytearray(48 << 20)"]
        subprocess.run([*(group.prefix if group else ()), *command], check=True)
        peak = group.peak() if group else None
    assert peak is None or peak > 48 << 20
