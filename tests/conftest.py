"""Fixtures for every test."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from cpuwheels.console import Reporter
from cpuwheels.store import Store

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project_root() -> Path:
    return ROOT


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def story() -> io.StringIO:
    """What the reporter of a test has written."""
    return io.StringIO()


@pytest.fixture
def reporter(story: io.StringIO) -> Reporter:
    return Reporter("test", Console(file=story, width=200, force_terminal=False))
