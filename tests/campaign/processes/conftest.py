from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from marked import Marked


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    processes = Marked(tmp_path)
    yield processes
    processes.end()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked to end has less time for it than in a build."""
    monkeypatch.setattr("cpuwheels.core.process._GRACE_SECONDS", 0.3)
    monkeypatch.setattr("cpuwheels.core.supervised.GRACE_SECONDS", 0.3)
    monkeypatch.setattr("cpuwheels.core.supervised.REST_SECONDS", 0.3)
