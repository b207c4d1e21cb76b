"""A copy of the project's own files, and a command line that works on it alone, with nothing to fetch from."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cpuwheels.cli.main import main
from loopback import DEAD
from sample_source import sha256, write_sdist

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.core.errors import CpuwheelsError


@dataclass
class Project:
    """A copy of the project's own files, and a command line that works on it alone."""

    root: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def dist(self) -> Path:
        return self.root / "dist"

    def change(self, change: Callable[[dict[str, Any]], None]) -> None:
        data = yaml.safe_load((self.root / "matrix.yaml").read_text())
        change(data)
        (self.root / "matrix.yaml").write_text(yaml.safe_dump(data, sort_keys=False))

    def serve(self, *urls: str, digest: str | None = None, size: int | None = None) -> None:
        """Let vLLM 0.32.0 come from these URLs."""
        sdist = self.root / "served" / "vllm-0.32.0.tar.gz"
        pinned = {"urls": list(urls), "sha256": digest or sha256(sdist), "size": size or sdist.stat().st_size}

        def put(data: dict[str, Any]) -> None:
            (release,) = (one for one in data["releases"] if one["version"] == "0.32.0")
            release["sdist"] = pinned

        self.change(put)

    def write_sdist(self, **changes: str | None) -> Path:
        names = {name.replace("__", "/").replace("_DOT_", "."): text for name, text in changes.items()}
        return write_sdist(self.root / "served" / "vllm-0.32.0.tar.gz", changes=names)

    def run(self, *arguments: str, cache: Path | None = None, dist: Path | None = None) -> tuple[int, str]:
        """Return exit code and message of a command."""
        places = ["--root", self.root, "--cache", cache or self.cache, "--dist", dist or self.dist]
        with pytest.raises(SystemExit) as raised:
            main([*map(str, places), *arguments])
        captured = self.capsys.readouterr()
        assert captured.out == ""
        assert isinstance(raised.value.code, int)
        return raised.value.code, captured.err

    def fails(self, expected: type[CpuwheelsError], *arguments: str, **places: Path) -> str:
        """Check that a command fails as it should, and return its message."""
        code, told = self.run(*arguments, **places)
        assert code == expected.exit_code, told
        message = told[told.index("error: ") :]
        assert "  where: " in message
        assert "  next:  " in message
        assert "Traceback" not in told
        return message


@pytest.fixture(name="project")
def offline_project(
    tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Project:
    root = tmp_path / "project"
    root.mkdir()
    shutil.copy(project_root / "matrix.yaml", root)
    for name in ("patches", "locks", "cmake", "csrc"):
        shutil.copytree(project_root / name, root / name)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("cpuwheels.fetch.download.time.sleep", lambda _: None)
    monkeypatch.chdir(root)
    for name in [name for name in os.environ if name.startswith(("CPUWHEELS_", "MAX_JOBS", "CC", "CXX"))]:
        monkeypatch.delenv(name)
    project = Project(root, capsys)

    def small(data: dict[str, Any]) -> None:
        data["targets"][0]["worst_peak"] = "1M"
        data["debian"]["mirrors"] = [f"{DEAD}/debian"]
        for release in data["releases"]:
            release["sdist"]["urls"] = [f"{DEAD}/vllm.tar.gz"]

    project.change(small)
    return project
