"""Tests that start no real build ask no network."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a unit test that connects anywhere but to this machine; Debian's packages come from where it says."""
    monkeypatch.setattr("cpuwheels.fetch.debian.mirrors.APT_ROOT", Path("/nonexistent"))
    monkeypatch.delenv("CPUWHEELS_DEBIAN_MIRROR", raising=False)
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6}:
            host = str(address[0])  # type: ignore[index]
            if not host.startswith("127.") and host != "::1":
                pytest.fail(f"a unit test wants to connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
