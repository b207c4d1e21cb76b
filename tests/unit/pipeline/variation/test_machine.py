"""What a machine lets a second build have otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.pipeline.variation import machine as module
from cpuwheels.pipeline.variation.machine import DRIVERS, Machine


def program(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "launch.py").write_text(text)
    return folder / "launch.py"


def test_what_is_there_is_found() -> None:
    machine = Machine()
    assert machine.user[1] == os.getuid()
    assert machine.hostname == os.uname().nodename
    assert machine.kernel == os.uname().release
    assert machine.memory > 1 << 28
    assert len(machine.cpus) >= 1
    assert machine.driver not in machine.pythons
    assert set(machine.pythons) <= set(DRIVERS)
    assert f"{len(machine.cpus)} CPUs" in machine.description


def test_the_umask_stays_as_it_is() -> None:
    before = os.umask(0o027)
    try:
        assert Machine().umask == 0o027
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_namespaces_are_found_to_work_where_they_do() -> None:
    works = subprocess.run(["unshare", "--user", "--uts", "--mount", "true"], check=False).returncode == 0
    assert (Machine().namespaces == "") == works


def test_why_something_does_not_work_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = program(tmp_path / "a", "import sys; print('unshare: Operation not permitted'); sys.exit(126)")
    monkeypatch.setattr(module, "LAUNCH", refusing)
    monkeypatch.setattr("sys.platform", "linux")
    machine = Machine()
    assert machine.namespaces == "user namespaces do not work here: unshare: Operation not permitted"
    assert machine.personalities == "personality(2) does not work here: unshare: Operation not permitted"
    monkeypatch.setattr(module, "LAUNCH", program(tmp_path / "b", "raise SystemExit(0)"))
    machine = Machine()
    assert machine.namespaces == machine.personalities == ""


def test_another_system_has_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    machine = Machine()
    assert machine.namespaces == "namespaces are Linux's; this is darwin"
    assert machine.personalities == "personalities are Linux's; this is darwin"


@pytest.mark.parametrize(("text", "random"), [("2\n", True), ("0\n", False), ("", False), (None, False)])
def test_whether_addresses_are_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, *, random: bool
) -> None:
    setting = tmp_path / "setting"
    if text is not None:
        setting.write_text(text)
    monkeypatch.setattr(module, "_RANDOM", setting)
    assert Machine().randomized is random


def test_the_lists_of_users_have_the_other_one_in_place_of_this_one() -> None:
    found = Machine().accounts("other", 54321)
    users = {line.split(":")[2]: line for line in found["/etc/passwd"].splitlines()}
    groups = {line.split(":")[2]: line for line in found["/etc/group"].splitlines()}
    assert str(os.getuid()) not in users
    assert str(os.getgid()) not in groups
    assert users["54321"] == f"other:x:54321:54321::{Path.home()}:/bin/sh"
    assert groups["54321"] == "other:x:54321:"
    assert len(users) == len(found["/etc/passwd"].splitlines())
