"""A file that is pinned, for tests of downloads, and little patience with its servers."""

from __future__ import annotations

import hashlib

from cpuwheels.core.limits import Patience
from cpuwheels.fetch.download import Pinned

GOOD = b"the pinned bytes\n" * 1000
SHA256 = hashlib.sha256(GOOD).hexdigest()
SHORT = Patience(answer=0.8, rate=2000, window=0.4, whole=2)


def pinned(*urls: str, size: int | None = len(GOOD), sha256: str = SHA256, file_name: str = "") -> Pinned:
    return Pinned("the file", urls, sha256, size, file_name)
