"""How much is taken from an archive. What is larger is refused, and named."""

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


WHEEL = ArchiveLimits(members=100_000, size=8 * _GIB, member=4 * _GIB)
"""torch's CPU wheel has 13,000 files and 700 MiB."""

TEXT = 16 * _MIB
"""Bytes of a file that is read as a whole: ``METADATA``, ``RECORD``, a note."""
