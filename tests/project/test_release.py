"""What a release is refused for."""

from __future__ import annotations

import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest
from release import (
    CHECKOUT_ERROR,
    PACKAGED,
    ReleaseError,
    check_changelog,
    clone,
    release,
    require_files,
    require_identical,
    tagged_version,
)

from cpuwheels.core.errors import CheckoutError
from layout import ROOT
from tiny_project import commit_all

if TYPE_CHECKING:
    from pathlib import Path

CHANGELOG = """\
# Changelog

## [Unreleased]

## [1.1.0]

### Added

- Something.

## [1.0.0] - 2026-11-24

### Added

- The first.

## [0.9.0] - 2026-11-01

### Added
"""


@pytest.mark.parametrize(
    ("name", "dated", "message"),
    [
        ("1.0.0", True, ""),
        ("1.1.0", False, ""),
        ("1.1.0", True, "needs its date"),
        ("0.9.0", True, "is empty"),
        ("Unreleased", False, "is empty"),
        ("2.0.0", True, "has no section"),
        ("1.0", True, "has no section"),
    ],
)
def test_the_changelog_needs_a_section(name: str, dated: bool, message: str) -> None:
    if message:
        with pytest.raises(ReleaseError, match=message):
            check_changelog(CHANGELOG, name, dated=dated)
    else:
        check_changelog(CHANGELOG, name, dated=dated)


def test_what_is_not_released_yet_is_in_the_changelog() -> None:
    check_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "Unreleased", dated=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "locks").mkdir(parents=True)
    (folder / "matrix.yaml").write_text("a")
    (folder / "locks" / "run.txt").write_text("b")
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    commit_all(folder, "first")
    return folder


def tag(folder: Path, name: str) -> None:
    subprocess.run(["git", "-C", folder, "tag", name], check=True)


def test_the_version_is_the_tags(checkout: Path) -> None:
    with pytest.raises(ReleaseError, match="no tag"):
        tagged_version(checkout)
    tag(checkout, "another")
    with pytest.raises(ReleaseError, match="no tag"):
        tagged_version(checkout)
    tag(checkout, "v1.0.0")
    assert tagged_version(checkout) == "1.0.0"
    tag(checkout, "v1.1.0")
    with pytest.raises(ReleaseError, match=r"v1\.0\.0, v1\.1\.0"):
        tagged_version(checkout)


def test_a_tag_of_an_earlier_commit_does_not_count(checkout: Path) -> None:
    tag(checkout, "v1.0.0")
    (checkout / "more").touch()
    commit_all(checkout, "second")
    with pytest.raises(ReleaseError, match="no tag"):
        tagged_version(checkout)


@pytest.mark.parametrize("name", ["matrix.yaml", "new.txt"])
def test_what_is_not_committed_is_refused(checkout: Path, tmp_path: Path, name: str) -> None:
    tag(checkout, "v1.0.0")
    (checkout / name).write_text("changed")
    with pytest.raises(ReleaseError, match=name):
        release(checkout, tmp_path / "out", dev=False)
    assert not (tmp_path / "out").exists()


def test_a_version_without_a_section_is_refused(checkout: Path, tmp_path: Path) -> None:
    tag(checkout, "v3.0.0")
    with pytest.raises(ReleaseError, match=r"no section \[3\.0\.0\]"):
        release(checkout, tmp_path / "out", dev=False)


def test_a_clone_has_the_commit_and_its_tags_alone(checkout: Path, tmp_path: Path) -> None:
    tag(checkout, "v1.0.0")
    (checkout / "matrix.yaml").write_text("changed")
    (checkout / "new.txt").touch()
    clone(checkout, tmp_path / "clone")
    assert (tmp_path / "clone" / "matrix.yaml").read_text() == "a"
    assert not (tmp_path / "clone" / "new.txt").exists()
    assert tagged_version(tmp_path / "clone") == "1.0.0"


def test_two_builds_have_the_same_names_and_bytes(tmp_path: Path) -> None:
    def files(folder: str, wheel: str, text: str) -> tuple[Path, Path]:
        (tmp_path / folder).mkdir()
        sdist, built = tmp_path / folder / "x.tar.gz", tmp_path / folder / wheel
        sdist.write_text("same")
        built.write_text(text)
        return sdist, built

    first = files("first", "x.whl", "text")
    require_identical(first, files("second", "x.whl", "text"))
    for other in (files("third", "x.whl", "other"), files("fourth", "y.whl", "text")):
        with pytest.raises(ReleaseError, match="two builds differ"):
            require_identical(first, other)


def test_every_file_of_the_project_has_to_be_in_the_wheel(checkout: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "locks").mkdir(parents=True)
    (data / "matrix.yaml").write_text("a")
    with pytest.raises(ReleaseError, match=r"locks/run\.txt"):
        require_files(data, checkout)
    (data / "locks" / "run.txt").write_text("other")
    with pytest.raises(ReleaseError, match=r"locks/run\.txt"):
        require_files(data, checkout)
    (data / "locks" / "run.txt").write_text("b")
    (data / "compiled.pyc").touch()
    require_files(data, checkout)
    (data / "stray").touch()
    with pytest.raises(ReleaseError, match="stray"):
        require_files(data, checkout)


def test_what_is_checked_is_what_the_wheel_is_given() -> None:
    (override,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["overrides"]
    assert override["wheel"]["force-include"] == {name: f"cpuwheels/data/{name}" for name in PACKAGED}
    assert CheckoutError.exit_code == CHECKOUT_ERROR
