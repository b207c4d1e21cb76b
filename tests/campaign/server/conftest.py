"""A server that speaks S3, and the index's own web server; no other machine is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.index import s3 as module
from cpuwheels.index.bucket import Folder
from cpuwheels.index.publish import publish
from cpuwheels.index.s3 import S3Bucket
from cpuwheels.index.serve import IndexServer
from index_publications import publication
from no_network import no_network
from running import running

__all__ = ["no_network"]


@pytest.fixture
def opened(s3_client: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], S3Bucket]:
    """Opens the same bucket, each time as another publisher does."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.05)
    name = f"campaign-{abs(hash(request.node.name))}"
    s3_client.create_bucket(Bucket=name)
    return lambda: S3Bucket(f"s3://{name}/index")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """An index with a wheel, and the port at which it is served; a user's file is next to it."""
    publish(Folder(tmp_path / "index"), publication(tmp_path / "dist"))
    (tmp_path / "secret").write_text("the user's")
    server = IndexServer(tmp_path / "index", 0)
    with running(server):
        yield tmp_path / "index", int(server.server_address[1])
