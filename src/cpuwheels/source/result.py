"""What the source stage hands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Source:
    """A vLLM source tree in the store; read only.

    Attributes:
        version: Version without the ``+cpu`` label, such as ``0.32.0``.
        folder: The tree as upstream published it.
        digest: Names its content: the archive's sha256, or the digest of a local tree's files.
        epoch: Seconds since 1970 of its newest file or commit; used for ``SOURCE_DATE_EPOCH``.
        origin: For people: where it came from.
        version_from: For people: how the version was found.
    """

    version: str
    folder: Path
    digest: str
    epoch: int
    origin: str
    version_from: str
