"""The check that nothing is left of a killed build finds what is left."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import killed_builds
from killed_builds import require_gone, running
from tiny_project import Tiny

if TYPE_CHECKING:
    from pathlib import Path


def test_a_process_in_a_folder_of_the_build_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed_builds, "GONE_SECONDS", 0.5)
    tiny = Tiny(tmp_path / "root", tmp_path / "tree", tmp_path / "dist", tmp_path / "cache")
    tiny.dist.mkdir()
    before = running()
    require_gone(tiny, [], before)
    with subprocess.Popen(["sleep", "30"], cwd=tiny.dist) as process:
        with pytest.raises(AssertionError, match="left behind"):
            require_gone(tiny, [], before)
        process.kill()
    require_gone(tiny, [], before)
