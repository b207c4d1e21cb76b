"""Which targets this machine can build, and which it can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.config.host import (
    check_host,
    check_own_machine,
    default_target,
    gnu_triple,
    is_foreign,
    own_target,
    runs_here,
)
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import MatrixError, TargetNotBuiltError

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


def be(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: machine)


@pytest.mark.parametrize(
    ("here", "target", "built", "run"),
    [
        (("Linux", "x86_64"), "x86", True, True),
        (("Linux", "x86_64"), "arm", True, False),
        (("Linux", "AMD64"), "s390x", True, False),
        (("Linux", "aarch64"), "arm", True, True),
        (("Linux", "s390x"), "s390x", True, True),
        (("Linux", "aarch64"), "x86", False, False),
        (("Darwin", "arm64"), "arm", False, False),
        (("Darwin", "x86_64"), "x86", False, False),
    ],
)
def test_where_a_target_is_built_and_run(
    matrix: Matrix,
    project_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    here: tuple[str, str],
    target: str,
    *,
    built: bool,
    run: bool,
) -> None:
    be(monkeypatch, *here)
    wanted = matrix.target(target)
    assert is_foreign(wanted) != run
    for check, good in ((lambda: check_host(wanted, project_root), built), (lambda: check_own_machine(wanted), run)):
        if good:
            check()
        else:
            with pytest.raises(TargetNotBuiltError, match=f"target '{target}' is .*Linux {wanted.machine}"):
                check()


@pytest.mark.parametrize(("machine", "expected"), [("aarch64", "arm"), ("s390x", "s390x"), ("riscv64", "x86")])
def test_without_a_name_this_machines_target_is_meant_else_the_first(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, machine: str, expected: str
) -> None:
    be(monkeypatch, "Linux", machine)
    assert default_target(matrix).id == expected


def test_the_message_names_every_machine_that_would_do(
    matrix: Matrix, project_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(monkeypatch, "Linux", "riscv64")
    with pytest.raises(TargetNotBuiltError, match="built on Linux aarch64 or Linux x86_64; this is Linux riscv64"):
        check_host(matrix.target("arm"), project_root)


def test_a_lock_that_is_not_there(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, "Linux", "x86_64")
    check_host(matrix.target("x86"), tmp_path)
    with pytest.raises(MatrixError):
        check_host(matrix.target("arm"), tmp_path)


@pytest.mark.parametrize(
    ("here", "own"),
    [
        (("Linux", "x86_64"), "x86"),
        (("Linux", "aarch64"), "arm"),
        (("Darwin", "arm64"), "macos"),
        (("Linux", "riscv64"), None),
    ],
)
def test_the_target_of_this_machine(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, here: tuple[str, str], own: str | None
) -> None:
    be(monkeypatch, *here)
    found = own_target(matrix)
    assert (found and found.id) == own


def test_one_that_is_ready_comes_first(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, "Linux", "x86_64")
    planned = matrix.target("x86").model_copy(update={"id": "other", "status": "planned"})
    found = own_target(matrix.model_copy(update={"targets": (planned, *matrix.targets)}))
    assert found is not None
    assert found.id == "x86"


@pytest.mark.parametrize(
    ("architecture", "machine"), [("amd64", "x86_64"), ("arm64", "aarch64"), ("s390x", "s390x"), ("riscv64", "riscv64")]
)
def test_what_runs_here(monkeypatch: pytest.MonkeyPatch, architecture: str, machine: str) -> None:
    lock = DebianLock(suites={}, architecture=architecture)
    be(monkeypatch, "Linux", machine)
    assert runs_here(lock)
    be(monkeypatch, "Darwin", machine)
    assert not runs_here(lock)
    be(monkeypatch, "Linux", "ppc64le")
    assert not runs_here(lock)


def test_triplet(matrix: Matrix) -> None:
    assert [gnu_triple(matrix.target(name)) for name in ("arm", "s390x")] == ["aarch64-linux-gnu", "s390x-linux-gnu"]
