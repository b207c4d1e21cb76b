"""What the kernel stage hands on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MODULES = "vllm"
DEBUG = "debug"
LEDGER = "jobs.jsonl"


@dataclass(frozen=True)
class Kernels:
    """Finished extension modules in the store.

    Attributes:
        key: Names everything they depend on.
        folder: Holds ``vllm/<module>.abi3.so`` and, if asked for, ``debug/<module>.abi3.so.debug``.
        modules: Module names, sorted.
        jobs: One record for each compilation and link: output, source, wall, user and system seconds, peak
            bytes.
        built: Whether this run compiled them.
    """

    key: str
    folder: Path
    modules: tuple[str, ...]
    jobs: tuple[dict[str, object], ...]
    built: bool

    @property
    def debug_folder(self) -> Path | None:
        """Folder of the separate debug symbols, if there are any."""
        folder = self.folder / DEBUG
        return folder if folder.is_dir() else None


def read_ledger(path: Path) -> tuple[dict[str, object], ...]:
    """Return the job records of a ledger; lines cut short by a kill are passed over."""
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return tuple(records)
