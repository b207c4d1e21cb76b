"""How much a build is said to fetch, keep and need: from locks, answers and stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.doctor import space
from cpuwheels.doctor.inputs import Context, debian_need
from cpuwheels.doctor.needs import Need, Place
from cpuwheels.doctor.network import Answer

MIB = 1 << 20
ANSWERS = {"good": Answer(True, "answers"), "bad": Answer(False, "does not")}


def need(place: str = "good", *, size: int | None = MIB, stored: bool = False, alternate: Need | None = None) -> Need:
    places = (Place(place, lambda: ANSWERS[place]),)
    return Need(f"thing at {place}", "it", stored, places, "do", alternate, size=size)


def other(place: str = "good", *, size: int | None = 5 * MIB, stored: bool = False) -> Need:
    return replace(need(place, size=size, stored=stored), name="another")


@pytest.mark.parametrize(
    ("needs", "more", "status", "detail"),
    [
        ([], 0, "ok", "the stores have everything that a build fetches"),
        ([need(stored=True)], 0, "ok", "the stores have everything that a build fetches"),
        ([need(), need("bad"), need(stored=True)], 2 * MIB, "info", "a build would fetch about 4 MiB"),
        ([need(size=None)], 0, "info", "a build would fetch thing at good, whose size no lock has"),
        (
            [need(size=None), other()],
            0,
            "info",
            "a build would fetch about 5 MiB and thing at good, whose size no lock has",
        ),
        ([need(alternate=other())], 0, "info", "a build would fetch about 1 MiB"),
        ([need("bad", alternate=other())], 0, "info", "a build would fetch about 5 MiB"),
        ([need("bad", alternate=other(stored=True))], 0, "ok", "the stores have everything that a build fetches"),
        ([need("bad", alternate=other("bad"))], 0, "info", "a build would fetch about 1 MiB"),
        ([replace(need("bad", alternate=other()), locked=True)], 0, "info", "a build would fetch about 1 MiB"),
    ],
    ids=[
        *("nothing", "stored", "what is missing", "unknown", "both", "the first choice", "the fallback"),
        *("a stored fallback", "neither", "no fallback if locked"),
    ],
)
def test_downloads(needs: list[Need], more: int, status: str, detail: str) -> None:
    check = space.judge_downloads(needs, ANSWERS, more)
    assert (check.name, check.status, check.detail) == ("downloads", status, detail)


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


def context(root: Path, store: Store) -> Context:
    return Context(root=root, store=store, environ={}, mirrors=("file:///mirror",), locked=False, certain=True)


def test_of_a_lock_what_is_missing_counts(project_root: Path, store: Store) -> None:
    lock = load_lock(project_root, "gcc-15-amd64")
    sizes = [package.size for package in lock.packages]
    assert debian_need(context(project_root, store), "gcc-15-amd64", "x").size == sum(sizes)
    (store.root / "downloads" / lock.packages[0].sha256[:24]).mkdir(parents=True)
    assert debian_need(context(project_root, store), "gcc-15-amd64", "x").size == sum(sizes[1:])


def test_the_sandbox_the_compiler_cache_and_tcmalloc_are_fetched_too(
    project_root: Path, matrix: Matrix, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    found = space.unlisted_bytes(context(project_root, store), matrix, matrix.target("x86"))
    locks = [load_lock(project_root, lock) for lock in (matrix.sandbox["x86_64"], matrix.compiler_cache["x86_64"])]
    packages = {package.sha256: package.size for lock in locks for package in lock.packages}
    assert matrix.gperftools is not None
    assert found == sum(size for lock in locks for size in (p.size for p in lock.packages)) + matrix.gperftools.size
    for sha256 in (*packages, matrix.gperftools.sha256):
        (store.root / "downloads" / sha256[:24]).mkdir(parents=True, exist_ok=True)
    assert space.unlisted_bytes(context(project_root, store), matrix, matrix.target("x86")) == 0


def test_the_build_tools_are_those_of_one_python(project_root: Path) -> None:
    found = space.tools_bytes(project_root, ["3.11", "3.12"])
    assert found is not None
    assert 20 * MIB < found < 100 * MIB
    assert space.tools_bytes(project_root, []) is None


def test_what_is_kept_is_what_the_stores_have_no_entry_of(matrix: Matrix, store: Store) -> None:
    target = matrix.target("x86")
    everything = sum(space.KEPT.values())
    assert space.bytes_to_keep(store, target) == everything
    assert space.bytes_to_write(store, target) == everything + space.WORK_BYTES
    (store.root / "torch" / ".new-1").mkdir(parents=True)
    assert space.bytes_to_keep(store, target) == everything
    (store.root / "torch" / "1").mkdir()
    (store.trusting(Trust.COMMIT).folder("kernels") / "1").mkdir(parents=True)
    left = everything - space.KEPT["torch"] - space.KEPT["kernels"]
    assert space.bytes_to_keep(store, target) == space.bytes_to_write(store, target) == left


def test_a_target_of_another_kind_of_machine_keeps_more(
    matrix: Matrix, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "is_foreign", lambda _: True)
    assert space.bytes_to_keep(store, matrix.target("arm")) == sum(space.KEPT.values()) + space.CROSS_BYTES
