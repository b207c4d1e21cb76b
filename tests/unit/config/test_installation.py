from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config import installation
from cpuwheels.config.installation import command_line, own_version, version_text
from layout import ROOT
from tiny_project import commit_all

if TYPE_CHECKING:
    from pathlib import Path

VERSION = importlib.metadata.version("cpuwheels")

LINES = [
    (("parity", "arm"), "nox -s parity-arm", "cpuwheels parity arm"),
    (("build", "x86", "--locked"), "nox -s build-x86 -- --locked", "cpuwheels build x86 --locked"),
    (("doctor",), "nox -s doctor", "cpuwheels doctor"),
    (("check-index", "", "--repair"), "nox -s check-index -- --repair", "cpuwheels check-index --repair"),
]


@pytest.mark.parametrize(("words", "line", "_"), LINES)
def test_a_checkouts_commands_are_sessions(words: tuple[str, ...], line: str, _: str) -> None:
    assert command_line(*words) == line


@pytest.mark.parametrize(("words", "_", "line"), LINES)
def test_an_installed_packages_commands_are_its_own(packaged: Path, words: tuple[str, ...], _: str, line: str) -> None:
    del packaged
    assert command_line(*words) == line


def test_a_checkouts_version_has_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "file").write_text("a")
    commit = commit_all(checkout, "first")
    monkeypatch.setattr(installation, "project_files", lambda: checkout)
    assert version_text() == f"{VERSION} (commit {commit})"
    (checkout / "file").write_text("b")
    assert version_text() == f"{VERSION} (commit {commit} and changes)"


@pytest.mark.parametrize("tag", ["", "v0.4.0"])
def test_a_checkout_that_is_not_installed_has_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    (tmp_path / "file").write_text("a")
    commit = commit_all(tmp_path, "first", tag=tag)
    monkeypatch.setattr(installation, "project_files", lambda: tmp_path)
    assert own_version() == (tag[1:] or f"0.1.1.dev1+g{commit[:9]}")
    assert version_text() == f"{own_version()} (commit {commit})"
    shutil.rmtree(tmp_path / ".git")
    fallback = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools_scm"]["fallback_version"]
    assert own_version() == fallback


def test_another_repository_around_it_is_not_its_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").touch()
    commit_all(tmp_path, "first")
    monkeypatch.setattr(installation, "project_files", lambda: tmp_path / "below")
    assert version_text() == VERSION


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shutil.which("git")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert version_text() == VERSION


def test_an_installed_package_has_no_commit(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del packaged

    def run(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(subprocess, "run", run)
    assert version_text() == VERSION
