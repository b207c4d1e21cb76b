"""Folders are looked up when they are needed, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.cli.folders import Folders
from cpuwheels.config.paths import Paths, project_files

if TYPE_CHECKING:
    import pytest


def test_relative_folders_are_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = Folders(root=Path("r"), dist=Path("d"), cache=Path("c"), matrix=Path("m"))
    assert given.paths() == Paths(tmp_path / "r", tmp_path / "c", tmp_path / "d", tmp_path / "m")
    assert given.output() == tmp_path / "d"


def test_without_options_the_working_folder_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CPUWHEELS_CACHE", str(tmp_path / "stores"))
    assert Folders().paths() == Paths(project_files(), tmp_path / "stores", tmp_path / "dist")
