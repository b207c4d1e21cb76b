"""Environments made by the real uv, offline, from wheels that a test has written."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.pins import TorchPin
from cpuwheels.environment.build_env import EnvironmentRequest, build_environment
from loopback import DEAD
from sample_source import sha256
from small_wheels import write_wheel
from torch_wheels import PYTHON, pinning, write_torch

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test sets decides where uv looks."""
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    # The tools come from here; torch has an order of its own.
    tool = write_wheel(tmp_path / "tools", "cmake", "4.0.0")
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "index").as_uri())
    (tmp_path / "index" / "cmake").mkdir(parents=True)
    (tmp_path / "index" / "cmake" / "index.html").write_text(f'<a href="{tool.as_uri()}">{tool.name}</a>')
    monkeypatch.setenv("PATH", f"{sys.base_prefix}/bin{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def request_(tmp_path: Path, project_root: Path) -> EnvironmentRequest:
    lock = tmp_path / "tools.txt"
    lock.write_text(f"cmake==4.0.0 --hash=sha256:{sha256(tmp_path / 'tools' / 'cmake-4.0.0-py3-none-any.whl')}\n")
    return EnvironmentRequest(
        torch="2.13.0",
        pin=TorchPin(index=f"{DEAD}/cpu"),
        target=load_matrix(project_root).target("x86"),
        pythons=(PYTHON,),
        lock=lock,
    )


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip's setting names."""
    (tmp_path / "links").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    return tmp_path / "links"


@pytest.fixture
def made(context: BuildContext, request_: EnvironmentRequest, links: Path) -> Environment:
    return build_environment(context, pinning(request_, write_torch(links, "2.13.0+cpu")))
