"""The browser, axe, and every kind of page that this project writes, made from example data."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, chromium

from cpuwheels.core.store import Store, default_root
from cpuwheels.fetch.download import Pinned, fetch
from example_pages import write_pages

PIN = Path(__file__).with_name("axe-core.json")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's script; fetched once, and compared with both digests each time."""
    pin = json.loads(PIN.read_text())
    archive = fetch(Pinned(pin["name"], (pin["url"],), pin["sha256"], pin["size"]), Store(default_root()))
    digest = hashlib.sha512(archive.read_bytes()).digest()
    assert f"sha512-{base64.b64encode(digest).decode()}" == pin["integrity"], "npm's own digest is another"
    with tarfile.open(archive) as package:
        script = package.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_pages(tmp_path_factory.mktemp("pages"))
