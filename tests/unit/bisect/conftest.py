from __future__ import annotations

import pytest

from fake_builds import PLACE, Builds


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """What stands for the pipeline's builds."""
    builds = Builds()
    monkeypatch.setattr(PLACE, builds)
    return builds
