"""Tests whose programs are stand-ins run them as they are."""

from __future__ import annotations

import pytest

from cpuwheels.sandbox import prepare
from cpuwheels.sandbox.confine import Sandbox
from cpuwheels.sandbox.mechanism import Mechanism

UNCONFINED = Sandbox(Mechanism("none", "a test"))


@pytest.fixture(autouse=True)
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stand-ins write what they were given next to the step's own folder, and fetch no bubblewrap."""
    monkeypatch.setattr(prepare, "_mechanism", lambda _: UNCONFINED.mechanism)
    monkeypatch.setattr(prepare, "_note", lambda _: "")
