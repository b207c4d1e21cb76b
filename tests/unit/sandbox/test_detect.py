from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.sandbox import detect
from cpuwheels.sandbox.detect import best_mechanism
from cpuwheels.sandbox.mechanism import LESSER, SIGNALS, Mechanism

BWRAP = Path("/store/bwrap")


class Machine:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.works: set[str] = set()
        self.tried: list[tuple[str, Path | None]] = []
        self.landlock, self.user, self.system, self.known = 6, 0, "linux", True
        monkeypatch.setattr(detect, "try_out", self._try)
        monkeypatch.setattr(detect, "landlock_version", lambda: self.landlock)
        monkeypatch.setattr(detect, "is_known", lambda: self.known)
        self._patch = monkeypatch

    def best(self, *programs: Path, missing: str = "") -> Mechanism:
        self._patch.setattr(detect.sys, "platform", self.system)
        self._patch.setattr(detect.os, "geteuid", lambda: self.user)
        best_mechanism.cache_clear()
        found = best_mechanism(programs or (BWRAP,), missing)
        best_mechanism.cache_clear()
        return found

    def _try(self, mechanism: Mechanism) -> str:
        self.tried.append((mechanism.kind, mechanism.program))
        return "" if mechanism.kind in self.works else "no permission"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_the_best_one_that_works_is_taken(machine: Machine) -> None:
    machine.works = {"user namespace", "root", "landlock"}
    assert machine.best() == Mechanism("user namespace", "", BWRAP)
    machine.works.remove("user namespace")
    found = machine.best()
    assert (found.kind, found.program) == ("root", BWRAP)
    assert found.reason == "bubblewrap with a user namespace does not work here: no permission"
    machine.works.remove("root")
    found = machine.best()
    assert (found.kind, found.program, found.landlock) == ("landlock", None, 6)
    assert "as root, without a user namespace does not work here" in found.reason
    assert LESSER in found.reason
    assert SIGNALS not in found.reason
    machine.works.clear()
    found = machine.best()
    assert found.kind == "none"
    assert "Landlock and a filter of system calls does not work here: no permission" in found.reason


def test_every_bubblewrap_is_tried_with_a_user_namespace_before_any_is_without(machine: Machine) -> None:
    machine.best(BWRAP, Path("/usr/bin/bwrap"))
    assert [f"{kind} {program and program.parent.name}" for kind, program in machine.tried] == [
        "user namespace store",
        "user namespace bin",
        "root store",
        "root bin",
        "landlock None",
    ]


def test_only_root_can_do_without_a_user_namespace(machine: Machine) -> None:
    machine.user = 1000
    machine.works = {"root"}
    assert machine.best().kind == "none"
    assert ("root", BWRAP) not in machine.tried


@pytest.mark.parametrize(
    ("version", "words"), [(0, "it has no Landlock"), (2, "its Landlock is version 2"), (5, SIGNALS)]
)
def test_an_older_kernel_is_told(machine: Machine, version: int, words: str) -> None:
    machine.works = {"landlock"}
    machine.landlock = version
    found = machine.best(missing="the mirror is gone")
    assert found.reason.startswith("the mirror is gone; ")
    assert words in found.reason
    assert found.kind == ("landlock" if version > 2 else "none")


def test_landlock_is_not_used_without_a_filter(machine: Machine) -> None:
    machine.works, machine.known = {"landlock"}, False
    assert machine.best().kind == "none"


def test_other_systems_have_none(machine: Machine) -> None:
    machine.system = "darwin"
    assert machine.best() == Mechanism("none", "sandboxes are Linux's; this is darwin")
    assert machine.tried == []
