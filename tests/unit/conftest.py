"""Unit tests start no real build and ask no network."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback import Server


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a unit test that connects anywhere but to this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6}:
            host = str(address[0])  # type: ignore[index]
            if not host.startswith("127.") and host != "::1":
                pytest.fail(f"a unit test wants to connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def plain_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let git see nothing of what whoever runs the tests has configured."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Run a web server on this machine for one test."""
    # Certificates are of no use here, and reading them takes longer than all the rest of a test.
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with Server() as running:
        yield running
