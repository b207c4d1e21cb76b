"""Wheels with their provenance, a key, and a Sigstore of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuwheels.attestation.keys import make_key
from local_sigstore import LocalSigstore
from recorded_wheel import write_build


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_build(tmp_path / "built")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def sigstore(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSigstore]:
    """The CI's job and the services behind it."""
    with LocalSigstore() as services:
        services.be_github(monkeypatch)
        yield services


@pytest.fixture
def config(sigstore: LocalSigstore, tmp_path: Path) -> Path:
    return sigstore.trust_config(tmp_path / "trust.json")
