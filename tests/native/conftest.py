from __future__ import annotations

from pathlib import Path

import pytest

from gate_folder import Gate
from no_network import no_network  # noqa: F401


@pytest.fixture
def gate(memgate: Path, tmp_path: Path) -> Gate:
    return Gate(memgate, tmp_path / "gate")
