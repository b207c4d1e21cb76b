"""A shared store in a folder, and in a bucket of a server that speaks S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.shared.folder import Folder
from cpuwheels.shared.s3 import Bucket
from other_s3 import OtherS3
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


@pytest.fixture
def other_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherS3]:
    """A server of another kind."""
    for name, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    with OtherS3() as server:
        yield server


@pytest.fixture
def other_bucket(other_s3: OtherS3) -> Open:
    return lambda: Bucket("s3://bucket/a/prefix", writes=True, environ={"AWS_ENDPOINT_URL": other_s3.url})


@pytest.fixture(params=["folder", "moto", "other S3"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same place, in a folder or in one of two servers that speak S3."""
    if request.param == "folder":
        return lambda: Folder(tmp_path / "shared")
    made: Open = request.getfixturevalue("bucket" if request.param == "moto" else "other_bucket")
    return made


@pytest.fixture
def told() -> list[str]:
    """What a reader was told."""
    return []
