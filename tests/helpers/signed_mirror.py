"""A mirror of Debian whose lists are signed by test keys."""

from __future__ import annotations

import base64
import json
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

FILES = {
    name: base64.b64decode(text)
    for name, text in json.loads((TESTS / "campaign" / "debian_lock" / "data.json").read_text()).items()
}
"""Lists, indexes and keys; written by make_data.py next to the file."""

NOW = datetime(2025, 6, 2, tzinfo=UTC)
"""A day after the lists were made."""

LOCK = "suites:\n  trixie:\n  - libc6\narchitecture: amd64\npackages: []\n"


@dataclass
class Mirror:
    """A mirror of the suite trixie, and a lock that is resolved against it.

    Attributes:
        folder: Of the mirror.
        lock: The lock.
        keyring: The keys that may sign.
        url: Of the mirror.
    """

    folder: Path
    lock: Path
    keyring: Path

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
        self.release.write_bytes(FILES[f"{release}.InRelease"])
        self.index.write_bytes(FILES[f"{index}.xz"])

    def resolve(self, *others: str, now: datetime = NOW) -> DebianLock:
        return relock(self.lock, [self.url, *others], keyring=self.keyring, now=now)

    def refuses(self, error: type[CpuwheelsError], message: str, now: datetime = NOW) -> CpuwheelsError:
        """Check that nothing is resolved, and that the lock is what it was."""
        with pytest.raises(error, match=message) as caught:
            self.resolve(now=now)
        assert type(caught.value) is error
        assert self.lock.read_text() == LOCK
        assert [path.name for path in self.lock.parent.iterdir()] == [self.lock.name]
        return caught.value
