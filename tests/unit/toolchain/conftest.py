from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def x86_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the kind of machine that the tests' own target is for."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
