"""What the source stage hands on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LATEST_EPOCH = 4_354_819_198
"""The last moment of a ZIP archive's clock, in 2107: a commit may claim any date, and the wheel takes it over."""

EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
_DIGITS, _SHOWN = 12, 40

KIND = "sources"
"""Where the store keeps trees, those of sdists and the snapshots of local ones."""


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
        commit: Hash of the commit that it is, if that is known.
        released: Whether it is the archive of a release.
    """

    version: str
    folder: Path
    digest: str
    epoch: int
    origin: str
    version_from: str
    commit: str | None = None
    released: bool = False


def epoch_of(seconds: float) -> int:
    """Return a time that a source claims as one that every file of a wheel can have; the same for all builds."""
    return int(max(0, min(seconds, LATEST_EPOCH)))


def with_epoch(source: Source, environ: Mapping[str, str]) -> Source:
    """Return the source with the time that ``SOURCE_DATE_EPOCH`` names, if it is set.

    The variable is defined at https://reproducible-builds.org/specs/source-date-epoch/.

    Raises:
        UsageError: It is not a whole number of seconds, or later than `LATEST_EPOCH`.
    """
    text = environ.get(EPOCH_VARIABLE, "").strip()
    if not text:
        return source
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS or int(text) > LATEST_EPOCH:
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {text[:_SHOWN]!r}, not a whole number of seconds from 1970 to 2107",
            where="environment",
            next_step="unset it to take the time from the source",
        )
    return replace(source, epoch=int(text))
