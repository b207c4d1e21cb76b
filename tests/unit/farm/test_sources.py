"""Which sources are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import BisectError, SourceError, UsageError
from cpuwheels.core.store import Store
from cpuwheels.farm.sources import Asked, find_sources
from layout import ROOT
from tiny_project import commit_all


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix(ROOT)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("clone")
    (folder / "csrc").mkdir()
    (folder / "csrc" / "a.cpp").write_text("int a;\n")
    (folder / "CMakeLists.txt").write_text("project(a)\n")
    (folder / "part.py").write_text("")
    found = [commit_all(folder, "release", tag="v9.9.0")]
    for number, name in enumerate(("part.py", "csrc/a.cpp", "part.py")):
        (folder / name).write_text(f"// {number}\n")
        found.append(commit_all(folder, f"change {number}"))
    return folder, found


def test_releases(matrix: Matrix, store: Store, reporter: Reporter) -> None:
    pinned = [release.version for release in matrix.releases]
    found = find_sources(Asked(all_releases=True), matrix, store, reporter)
    assert set(found) == set(pinned)
    assert set(found.values()) == {""}
    assert list(find_sources(Asked((pinned[0],)), matrix, store, reporter)) == [pinned[0]]
    with pytest.raises(SourceError, match=r"pins no release 0\.0\.7"):
        find_sources(Asked(("0.0.7",)), matrix, store, reporter)


def test_commits_with_the_same_kernels_have_one_class(
    clone: tuple[Path, list[str]], matrix: Matrix, store: Store, reporter: Reporter
) -> None:
    folder, names = clone
    found = find_sources(Asked(since="v9.9.0", repo=folder), matrix, store, reporter)
    assert list(found) == names[:0:-1], "the newest first"
    newest, kernel, python = found.values()
    assert newest == kernel != python
    both = find_sources(Asked((names[0], "main"), repo=folder), matrix, store, reporter)
    assert list(both) == [names[0], names[3]]
    assert both[names[0]] == python
    assert find_sources(Asked(("main",), repo=folder), matrix, store, reporter) == {names[3]: ""}


def test_what_no_other_machine_has_is_refused(matrix: Matrix, store: Store, reporter: Reporter, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder, which other machines do not have"):
        find_sources(Asked((str(tmp_path),)), matrix, store, reporter)
    with pytest.raises(UsageError, match="no source is named"):
        find_sources(Asked(), matrix, store, reporter)


def test_what_the_clone_does_not_have(
    clone: tuple[Path, list[str]], matrix: Matrix, store: Store, reporter: Reporter
) -> None:
    with pytest.raises(SourceError):
        find_sources(Asked(("nothing-of-that-name",), repo=clone[0]), matrix, store, reporter)
    with pytest.raises(BisectError, match="same commit"):
        find_sources(Asked(since="main", repo=clone[0]), matrix, store, reporter)
