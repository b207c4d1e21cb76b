"""The gpgv that checks signatures, and a mirror."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pinned_root import pinned_root
from signed_mirror import FILES, LOCK, Mirror


@pytest.fixture(scope="session")
def gpgv() -> Path:
    """The machine's own gpgv, else the pinned one."""
    if found := shutil.which("gpgv"):
        return Path(found)
    return pinned_root("gpgv", "gpgv") / "usr" / "bin" / "gpgv"


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
