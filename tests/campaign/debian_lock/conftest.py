"""The gpgv that checks signatures, and a mirror."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store, default_root
from cpuwheels.fetch.debian.mirrors import mirrors
from cpuwheels.fetch.debian.root import unpacked_root
from cpuwheels.toolchain.debian_compiler import relocate
from layout import ROOT
from signed_mirror import FILES, LOCK, Mirror


@pytest.fixture(scope="session")
def gpgv() -> Path:
    """The machine's own gpgv, else the pinned one."""
    if found := shutil.which("gpgv"):
        return Path(found)
    folder = unpacked_root(
        load_lock(ROOT, "gpgv-amd64"),
        "gpgv",
        mirrors=mirrors(load_matrix(ROOT).debian.mirrors, os.environ),
        store=Store(default_root() / "tests"),
        reporter=Reporter("tests"),
        finish=relocate,
        finish_key="gpgv",
    )
    return folder / "usr" / "bin" / "gpgv"


@pytest.fixture
def mirror(tmp_path: Path, gpgv: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    monkeypatch.setenv("PATH", f"{gpgv.parent}:/usr/bin:/bin")
    lock = tmp_path / "locks" / "root.yaml"
    lock.parent.mkdir()
    lock.write_text(LOCK)
    keyring = tmp_path / "keyring.gpg"
    keyring.write_bytes(FILES["keyring.gpg"])
    made = Mirror(tmp_path / "mirror", lock, keyring)
    made.serve("good")
    return made
