"""How much is taken from outside: of archives, and of servers. What is larger is refused, and named."""

from __future__ import annotations

from dataclasses import dataclass

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class ArchiveLimits:
    """What one archive may unpack to.

    Attributes:
        members: Files, folders and links.
        size: Bytes of all files together.
        member: Bytes of one file.
        path: Bytes of a member's path.
        name: Bytes of one part of a path, as file systems have it.
        depth: Folders within one another.
        table: Bytes of a zip archive's list of members; a member takes at least 46.
    """

    members: int
    size: int
    member: int
    path: int = 1024
    name: int = 255
    depth: int = 64
    table: int = 8 * _MIB


SOURCE = ArchiveLimits(members=200_000, size=4 * _GIB, member=_GIB)
"""vLLM 0.32.0 has 5,000 files and 70 MiB, a large project (LLVM) 180,000 and 2 GiB."""

DEBIAN_PACKAGE = ArchiveLimits(members=200_000, size=8 * _GIB, member=4 * _GIB)
"""The largest here, GCC's and torch's, have 10,000 files and 500 MiB."""

WHEEL = ArchiveLimits(members=100_000, size=8 * _GIB, member=4 * _GIB)
"""torch's CPU wheel has 13,000 files and 700 MiB."""


@dataclass(frozen=True)
class Patience:
    """How long a server is waited for. Only waiting counts: a slow disk does not make a server slow.

    Attributes:
        answer: Seconds until an answer begins, with all redirects.
        rate: Bytes a second that have to come on average of each `window`.
        window: Seconds.
        whole: Seconds for all of it.
    """

    answer: float = 60
    rate: int = 2 * _KIB
    window: float = 60
    whole: float = 6 * 3600


FILE = Patience()
PAGE = Patience(whole=300)
"""Of a package index."""

DOWNLOAD = 16 * _GIB
"""Bytes of a file whose size is not known."""

PAGE_SIZE = 16 * _MIB
"""Bytes of such a page; those of numpy and botocore at PyPI have 2 MiB (2026-11-25), vLLM's has 130 KiB."""

TEXT = 16 * _MIB
"""Bytes of a file that is read as a whole: ``METADATA``, ``RECORD``, a note."""
