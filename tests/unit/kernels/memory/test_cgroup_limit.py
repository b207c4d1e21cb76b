"""What holds the cap: control groups of both versions on made-up file systems, and a real one where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.kernels.memory.cgroup_limit import WATCH, _remove_leftovers, hold
from cpuwheels.kernels.memory.cgroups import groups

LIMIT = 300 << 20


class Machine:
    """A proc file system with one cgroup mount, on plain folders."""

    def __init__(self, tmp: Path, version: str, member: str) -> None:
        self.proc, self.mount = tmp / "proc", tmp / "cgroup"
        self.unified = version == "v2"
        kind, options, controllers = ("cgroup2", "rw", "") if self.unified else ("cgroup", "rw,memory", "memory")
        (self.proc / "self").mkdir(parents=True)
        (self.mount / member.strip("/")).mkdir(parents=True)
        (self.proc / "self/mountinfo").write_text(f"30 20 0:1 / {self.mount} rw - {kind} {kind} {options}\n")
        (self.proc / "self/cgroup").write_text(f"{'0' if self.unified else '4'}:{controllers}:{member}\n")

    def group(self, name: str, **files: object) -> Path:
        folder = self.mount / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file.replace("__", ".")).write_text(f"{text}\n")
        return folder


@pytest.fixture
def born(monkeypatch: pytest.MonkeyPatch):
    """Groups come with their files, as the kernel makes them, and take them along when they go."""
    files = ("cgroup.procs", "memory.max", "memory.swap.max", "memory.events", "memory.limit_in_bytes")
    made: list[Path] = []
    mkdir, rmdir = Path.mkdir, Path.rmdir

    def new(path: Path, *arguments: object, **options: object) -> None:
        mkdir(path, *arguments, **options)
        if path.name.startswith("cpuwheels-"):
            made.append(path)
            for file in files:
                (path / file).touch()

    def gone(path: Path) -> None:
        if path.name.startswith("cpuwheels-"):
            for file in files:
                (path / file).unlink(missing_ok=True)
        rmdir(path)

    monkeypatch.setattr(Path, "mkdir", new)
    monkeypatch.setattr(Path, "rmdir", gone)
    return made


def test_v2_in_the_root(tmp_path, born):
    machine = Machine(tmp_path, "v2", "/")
    machine.group("", cgroup__subtree_control="cpu memory")
    with hold(LIMIT, machine.proc) as held:
        (group,) = born
        assert group.parent == machine.mount
        assert (group / "memory.max").read_text() == str(LIMIT)
        assert (group / "memory.swap.max").read_text() == "0"
        assert held.oom_events == group / "memory.events"
        assert held.how == f"cgroup v2 {group}"
        assert held.prefix[0] == "/bin/sh"
        assert held.prefix[-1] == str(group / "cgroup.procs")
    assert not group.exists()


@pytest.mark.usefixtures("born")
def test_v2_asks_for_the_controller(tmp_path):
    machine = Machine(tmp_path, "v2", "/")
    machine.group("", cgroup__subtree_control="cpu")
    with hold(LIMIT, machine.proc):
        assert (machine.mount / "cgroup.subtree_control").read_text() == "+memory"


def test_v2_beside_a_group_that_has_processes(tmp_path, born, monkeypatch):
    machine = Machine(tmp_path, "v2", "/user/app.scope")
    machine.group("user", cgroup__subtree_control="memory")
    busy = machine.group("user/app.scope", cgroup__subtree_control="", memory__max="max")
    write = Path.write_text

    def refuse(path: Path, *arguments: object, **options: object) -> int:
        if path == busy / "cgroup.subtree_control":
            raise OSError(16, "Device or resource busy")
        return write(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", refuse)
    with hold(LIMIT, machine.proc) as held:
        assert [group.parent for group in born] == [machine.mount / "user"]
    assert held.how.startswith("cgroup v2")


def test_v2_never_leaves_a_group_that_sets_a_limit(tmp_path, born, monkeypatch):
    """A sibling of a container's group would escape the container's own limit."""
    machine = Machine(tmp_path, "v2", "/pods/one")
    machine.group("pods", cgroup__subtree_control="memory")
    machine.group("pods/one", cgroup__subtree_control="memory", memory__max=8 << 30)
    mkdir = Path.mkdir

    def refuse(path: Path, *arguments: object, **options: object) -> None:
        if path.name.startswith("cpuwheels-") and path.parent.name == "one":
            raise PermissionError(13, "Permission denied")
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with hold(LIMIT, machine.proc) as held:
        assert held is WATCH
    assert born == []


def test_v1(tmp_path, born):
    machine = Machine(tmp_path, "v1", "/job")
    with hold(LIMIT, machine.proc) as held:
        (group,) = born
        assert group.parent == machine.mount / "job"
        assert (group / "memory.limit_in_bytes").read_text() == str(LIMIT)
        assert held.oom_events == group / "memory.oom_control"
        assert held.how == f"cgroup v1 {group}"


@pytest.mark.usefixtures("born")
def test_leftovers_of_killed_builds_go(tmp_path):
    machine = Machine(tmp_path, "v1", "/")
    (machine.mount / "cpuwheels-1234").mkdir()
    with hold(LIMIT, machine.proc):
        assert not (machine.mount / "cpuwheels-1234").exists()


def test_a_group_that_another_build_took_for_a_leftover_is_made_again(tmp_path, born, monkeypatch):
    machine, opened = Machine(tmp_path, "v1", "/"), os.open

    def late(path: object, *arguments: object, **options: object) -> int:
        if len(born) == 1 and Path(str(path)).name.startswith("cpuwheels-"):
            born[0].rmdir()  # between its making and its lock
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", late)
    with hold(LIMIT, machine.proc) as held:
        assert len(born) == 2
        assert held is not WATCH
        assert (born[1] / "memory.limit_in_bytes").read_text() == str(LIMIT)


@pytest.mark.usefixtures("born")
def test_a_group_in_use_is_no_leftover(tmp_path):
    """It is empty until its first command enters it; another build's clean-up must not take it."""
    machine = Machine(tmp_path, "v1", "/")
    with hold(LIMIT, machine.proc) as held:
        group = Path(held.prefix[-1]).parent
        _remove_leftovers(machine.mount)
        assert group.is_dir()
    assert not group.exists()


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)


def no_memory_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group on a hierarchy without the controller has no memory.max to write."""
    write = Path.write_text

    def refuse(path: Path, *arguments: object, **options: object) -> int:
        if path.name in {"memory.max", "memory.limit_in_bytes"}:
            raise PermissionError(13, "Permission denied")
        return write(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", refuse)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("fault", [read_only, no_memory_controller])
def test_what_stands_in_the_way_means_the_watch(tmp_path, monkeypatch, version, fault):
    machine = Machine(tmp_path, version, "/")
    machine.group("", cgroup__subtree_control="memory")
    fault(monkeypatch)
    with hold(LIMIT, machine.proc) as held:
        assert held is WATCH
    assert list(machine.mount.glob("cpuwheels-*")) == []


def test_no_control_groups_at_all(tmp_path):
    with hold(LIMIT, tmp_path / "proc") as held:
        assert held is WATCH
        assert held.prefix == ()


@pytest.fixture
def systemd_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A systemd-run that writes its arguments down and runs the command, or answers what it is told to."""

    def make(answer: str = "") -> Path:
        program = tmp_path / "bin" / "systemd-run"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\n[ "$XDG_RUNTIME_DIR" = /run/user/7 ] || exit 3\necho "$@" >> {tmp_path}/asked\n{answer}\n'
            'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
        return tmp_path / "asked"

    return make


def test_a_scope_where_no_group_can_be_made(tmp_path, systemd_run):
    asked = systemd_run('case "$*" in *memory.max*) echo 314572800; exit;; esac')
    with hold(LIMIT, tmp_path / "proc") as held:
        assert "scope" in held.how
        command = [*held.prefix, "/bin/echo", "a b"]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a b\n")
    first, second = asked.read_text().splitlines()
    assert f"--property=MemoryMax={LIMIT} --property=MemorySwapMax=0 -- /bin/sh" in first
    assert second.startswith("--user --scope ")


@pytest.mark.parametrize("answer", ["exit 1", "echo max; exit", "exit 0", "echo no such file; exit 1"])
def test_a_scope_that_holds_nothing_means_the_watch(tmp_path, systemd_run, answer):
    systemd_run(answer)
    with hold(LIMIT, tmp_path / "proc") as held:
        assert held is WATCH


def test_without_a_session_there_is_no_scope(tmp_path, systemd_run, monkeypatch):
    asked = systemd_run()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with hold(LIMIT, tmp_path / "proc") as held:
        assert held is WATCH
    assert not asked.exists()


@pytest.mark.skipif(not (groups("memory") and os.geteuid() == 0), reason="needs root and a memory control group")
def test_a_real_group_ends_a_command_that_takes_too_much():
    take = "import sys; block = b'x' * (int(sys.argv[1]) << 20); print(len(block))"
    with hold(120 << 20) as held:
        if held is WATCH:
            pytest.skip("no group can be made here")
        command = [*held.prefix, sys.executable, "-c", take]
        little = subprocess.run([*command, "40"], capture_output=True, text=True, check=False)
        much = subprocess.run([*command, "400"], capture_output=True, text=True, check=False)
        assert held.oom_events is not None
        kills = [line for line in held.oom_events.read_text().splitlines() if line.startswith("oom_kill ")]
        group = held.oom_events.parent
    assert (little.returncode, little.stdout) == (0, f"{40 << 20}\n")
    assert much.returncode == -9
    assert kills == ["oom_kill 1"]
    assert not group.exists()
