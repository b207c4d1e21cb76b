"""What the doctor says of the sandbox."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.store import Store
from cpuwheels.doctor.sandbox import judge_mechanism, sandbox_check
from cpuwheels.sandbox import prepare
from cpuwheels.sandbox.mechanism import Mechanism
from cpuwheels.toolchain import debian_compiler


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


def context(root: Path, store: Store) -> Any:
    return SimpleNamespace(root=root, store=store, locked=False)


def test_bubblewrap_that_was_not_fetched_is_not_fetched_now(project_root: Path, matrix: Matrix, store: Store) -> None:
    for machine in ("x86_64", "aarch64"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prepare.platform, "system", lambda: "Linux")
            patch.setattr(prepare.platform, "machine", lambda machine=machine: machine)
            found = sandbox_check(context(project_root, store), matrix)
        assert (found.status, f"locks/{matrix.sandbox[machine]}.yaml" in found.detail) == ("info", True)
    assert not store.root.exists()


def test_the_one_in_the_store_is_tried(
    project_root: Path, matrix: Matrix, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def best(programs: tuple[Path, ...], missing: str) -> Mechanism:
        asked.append((programs, missing))
        return Mechanism("user namespace", program=programs[0])

    monkeypatch.setattr(prepare, "best_mechanism", best)
    monkeypatch.setattr(prepare.shutil, "which", lambda _: None)
    monkeypatch.setattr(prepare, "pinned_lock", lambda _: matrix.sandbox["x86_64"])
    monkeypatch.setattr(debian_compiler, "stored_programs", lambda *_: tmp_path)
    found = sandbox_check(context(project_root, store), matrix)
    assert (found.status, found.detail) == ("ok", "bubblewrap with a user namespace")
    assert asked == [((tmp_path / "usr" / "bin" / "bwrap",), "")]


@pytest.mark.parametrize(
    ("mechanism", "locked", "status", "words"),
    [
        (Mechanism("landlock", "no namespaces"), False, "warn", "Landlock and a filter of system calls: no namespaces"),
        (Mechanism("landlock", "no namespaces"), True, "warn", "no namespaces"),
        (Mechanism("none", "this is darwin"), False, "warn", "not sandboxed: this is darwin"),
        (Mechanism("none", "this is darwin"), True, "fail", "not sandboxed: this is darwin"),
    ],
)
def test_a_lesser_one_is_told_with_the_remedy(mechanism: Mechanism, locked: bool, status: str, words: str) -> None:
    found = judge_mechanism(mechanism, locked=locked)
    assert (found.status, words in found.detail) == (status, True)
    assert "--allow-unsandboxed" in found.next_step
