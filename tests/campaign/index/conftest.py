"""An index with three wheels, and a user's file next to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacked_index import Attacked
from commit_wheels import wheel
from cpuwheels.config.matrix import load_matrix
from no_network import no_network

__all__ = ["no_network"]


@pytest.fixture
def attacked(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Attacked:
    monkeypatch.setattr("os.fsync", lambda _: None)  # what matters here is what is written, not when
    found = Attacked(tmp_path / "index", tmp_path, load_matrix(project_root))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text('{"secret": "the user\'s"}')
    for number, target in ((1, "x86"), (1, "arm"), (2, "x86")):
        found.publish(wheel(tmp_path / "good", number, target))
    found.holds()
    return found
