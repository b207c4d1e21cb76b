"""A mirror of Debian whose lists are signed by test keys."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from cpuwheels.fetch.debian.resolve import relock
from layout import TESTS

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.core.errors import CpuwheelsError

DATA = TESTS / "campaign" / "debian_lock" / "data"
"""Written by make_data.py next to it."""

NOW = datetime(2025, 6, 2, tzinfo=UTC)
"""A day after the lists were made."""

LOCK = "suites:\n  trixie:\n  - libc6\narchitecture: amd64\npackages: []\n"


@dataclass
class Mirror:
    """A mirror of the suite trixie, and a lock that is resolved against it.

    Attributes:
        folder: Of the mirror.
        lock: The lock.
        url: Of the mirror.
    """

    folder: Path
    lock: Path

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    @property
    def release(self) -> Path:
        return self.folder / "dists/trixie/InRelease"

    @property
    def index(self) -> Path:
        return self.folder / "dists/trixie/main/binary-amd64/Packages.xz"

    def serve(self, release: str, index: str = "Packages") -> None:
        """Put a signed list of data/ and an index on the mirror."""
        self.index.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DATA / f"{release}.InRelease", self.release)
        shutil.copyfile(DATA / f"{index}.xz", self.index)

    def resolve(self, *others: str, now: datetime = NOW, keyring: Path = DATA / "keyring.gpg") -> DebianLock:
        return relock(self.lock, [self.url, *others], keyring=keyring, now=now)

    def refuses(self, error: type[CpuwheelsError], message: str, now: datetime = NOW) -> CpuwheelsError:
        """Check that nothing is resolved, and that the lock is what it was."""
        with pytest.raises(error, match=message) as caught:
            self.resolve(now=now)
        assert type(caught.value) is error
        assert self.lock.read_text() == LOCK
        assert [path.name for path in self.lock.parent.iterdir()] == [self.lock.name]
        return caught.value
