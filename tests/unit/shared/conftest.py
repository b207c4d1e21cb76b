"""A shared store in a folder, and in a bucket of a server that speaks S3."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.shared.folder import Folder
from cpuwheels.shared.s3 import Bucket
from shared_stores import Open


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def bucket(s3_client: Any, request: pytest.FixtureRequest) -> Open:
    name = f"shared-{abs(hash(request.node.nodeid))}"
    s3_client.create_bucket(Bucket=name)
    return lambda: Bucket(f"s3://{name}/some/prefix", writes=True)


@pytest.fixture(params=["folder", "s3"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "folder":
        return lambda: Folder(tmp_path / "shared")
    made: Open = request.getfixturevalue("bucket")
    return made


@pytest.fixture
def told() -> list[str]:
    """What a reader was told."""
    return []
