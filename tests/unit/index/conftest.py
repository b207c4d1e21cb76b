"""Tests of the index write thousands of files, and none but those of a power cut needs them on the disk."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
