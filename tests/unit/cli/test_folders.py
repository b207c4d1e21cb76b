"""Folders are looked up when they are needed, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.cli.folders import Folders
from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_given_needs_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Folders(dist=tmp_path / "out").output() == tmp_path / "out"
    with pytest.raises(UsageError, match=r"no matrix\.yaml"):
        Folders().output()
    with pytest.raises(UsageError, match=r"no matrix\.yaml"):
        Folders(dist=tmp_path / "out").paths()


def test_the_project_is_found_from_the_working_folder_upwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "matrix.yaml").touch()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setenv("CPUWHEELS_CACHE", str(tmp_path / "stores"))
    paths = Folders().paths()
    assert (paths.root, paths.cache, paths.dist) == (tmp_path, tmp_path / "stores", tmp_path / "dist")
    assert Folders(root=tmp_path / "other", cache=tmp_path / "c").paths().root == tmp_path / "other"
