"""Where the project's files are: in a checkout, in an installed package, and in a folder that has only a matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.config.paths import Paths, find_project, is_packaged, project_files, resolve_paths
from cpuwheels.core.errors import CheckoutError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("patches", "cmake", "locks", "below/deeper"):
        (folder / name).mkdir(parents=True)
    (folder / "matrix.yaml").touch()
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def test_the_files_of_this_code_are_the_checkouts(project_root: Path) -> None:
    assert not is_packaged()
    assert project_files() == project_root


def test_the_files_of_an_installed_package_are_in_it(packaged: Path) -> None:
    assert is_packaged()
    assert project_files() == packaged


def test_a_project_is_found_from_below(project: Path, elsewhere: Path) -> None:
    assert find_project(project) == find_project(project / "below" / "deeper") == project
    assert find_project(elsewhere) is None


@pytest.mark.parametrize("missing", ["patches", "cmake", "locks", "matrix.yaml"])
def test_a_folder_that_lacks_a_part_is_no_project(project: Path, missing: str) -> None:
    (project / missing).rename(project / "renamed")
    assert find_project(project) is None


def test_in_a_project_its_files_are_used(project: Path, packaged: Path, tmp_path: Path) -> None:
    del packaged
    paths = resolve_paths(project / "below", tmp_path / "cache")
    assert paths == Paths(project, tmp_path / "cache", project / "dist")
    assert paths.matrix == project / "matrix.yaml"


def test_elsewhere_the_packages_own(packaged: Path, elsewhere: Path, tmp_path: Path) -> None:
    paths = resolve_paths(elsewhere, tmp_path / "cache")
    assert paths == Paths(packaged, tmp_path / "cache", elsewhere / "dist")
    assert paths.matrix == packaged / "matrix.yaml"


def test_a_matrix_in_the_working_folder_replaces_the_packages(packaged: Path, elsewhere: Path, tmp_path: Path) -> None:
    own, other = elsewhere / "matrix.yaml", tmp_path / "other.yaml"
    own.touch()
    paths = resolve_paths(elsewhere, tmp_path)
    assert (paths.root, paths.matrix) == (packaged, own)
    assert resolve_paths(elsewhere, tmp_path, matrix=other).matrix == other
    (elsewhere / "below").mkdir()
    assert resolve_paths(elsewhere / "below", tmp_path).matrix == packaged / "matrix.yaml"


def test_what_is_given_is_used(project: Path, elsewhere: Path, tmp_path: Path) -> None:
    assert resolve_paths(elsewhere, tmp_path, root=project) == Paths(project, tmp_path, project / "dist")
    assert resolve_paths(project, tmp_path, dist=elsewhere) == Paths(project, tmp_path, elsewhere)
    (elsewhere / "matrix.yaml").touch()
    assert resolve_paths(elsewhere, tmp_path, root=project).matrix == project / "matrix.yaml"


@pytest.mark.parametrize("matrix", [None, Path("/m.yaml")])
def test_the_options_mean_the_same_folders(matrix: Path | None, tmp_path: Path) -> None:
    paths = Paths(tmp_path / "r", tmp_path / "c", tmp_path / "d", matrix)
    words = iter(map(str, paths.as_arguments()))
    given = {name.removeprefix("--"): Path(value) for name, value in zip(words, words, strict=True)}
    assert resolve_paths(tmp_path, given.pop("cache"), **given) == paths


def test_only_the_packages_own_files_are_kept_as_they_are(packaged: Path, project: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckoutError, match="lock writes"):
        Paths(packaged, tmp_path, tmp_path).require_checkout("lock")
    Paths(project, tmp_path, tmp_path).require_checkout("lock")


def test_in_a_checkout_nothing_is_refused(project_root: Path, tmp_path: Path) -> None:
    Paths(project_root, tmp_path, tmp_path).require_checkout("lock")
