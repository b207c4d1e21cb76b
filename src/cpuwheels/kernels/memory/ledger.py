"""memgate's ledger: one record for each time that a compiler or linker ran."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field, ValidationError

from cpuwheels.core.models import Strict
from cpuwheels.kernels.ccache.settings import was_hit

if TYPE_CHECKING:
    from pathlib import Path

LEDGER = "jobs.jsonl"
"""Name of the file in a build's folder, and next to finished kernels."""


class JobRecord(Strict):
    """One run of a compiler or linker, as memgate writes it (csrc/memgate/ledger.c)."""

    model_config = ConfigDict(extra="ignore", strict=True)

    output: str = Field(min_length=1)
    """The file made, as the compiler's command names it."""
    source: str = ""
    """The file read; empty for a link."""
    start: float
    """Seconds since 1970."""
    wall: float
    """Seconds."""
    user: float
    """CPU seconds of its processes outside the kernel."""
    system: float
    """CPU seconds in the kernel."""
    waited: float = 0.0
    """Seconds that it waited for memory and a CPU."""
    peak_bytes: int
    """Of its largest process."""
    tree_bytes: int = 0
    """Of all its processes at their largest; 0 if they were not watched."""
    shared_bytes: int = 0
    """Part of `tree_bytes` that is pages of files."""
    expected_bytes: int = 0
    lane: int = 0
    """CPU slot, from 0."""
    attempt: int = Field(default=1, ge=1)
    note: str = ""
    """What the job wrote about itself, such as the compiler cache's events."""
    stopped: bool = False
    """Whether it was stopped for memory."""
    status: int
    """Exit status."""

    @property
    def cpu_seconds(self) -> float:
        """CPU time."""
        return self.user + self.system

    @property
    def bytes(self) -> int:
        """Peak memory."""
        return max(self.peak_bytes, self.tree_bytes)

    @property
    def cached(self) -> bool:
        """Whether the result came out of the compiler cache."""
        return was_hit(self.note)


def ledger_size(path: Path) -> int:
    """Return the bytes of a ledger; 0 if there is none yet."""
    return path.stat().st_size if path.is_file() else 0


def read_records(path: Path, since: int = 0) -> tuple[JobRecord, ...]:
    """Return the records of a ledger, in the order in which the jobs ended.

    Args:
        path: The ledger; there may be none yet.
        since: Bytes to leave out, as `ledger_size` gave them before.

    Lines cut short by a kill, or written by something else, are skipped.
    """
    records = []
    text = path.read_bytes()[since:].decode(errors="replace") if path.is_file() else ""
    for line in text.splitlines():
        try:
            records.append(JobRecord.model_validate_json(line))
        except ValidationError:
            continue
    return tuple(records)


def end_cut_line(path: Path) -> None:
    """End a ledger's last line if it was cut short, so that the next record is not taken for its rest.

    Raises:
        OSError: The file cannot be read or written.
    """
    if path.is_file() and path.stat().st_size:
        with path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
