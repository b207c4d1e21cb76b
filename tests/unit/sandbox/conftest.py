"""Here the real mechanisms are tested."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def unconfined() -> None:
    """Replaces the fixture under which other tests run their stand-ins as they are."""
