"""memgate's ledger: one record for each time that a compiler or linker ran."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LEDGER = "jobs.jsonl"
"""Name of the file in a build's folder, and beside finished kernels."""


def ledger_size(path: Path) -> int:
    """Return the bytes of a ledger; 0 if there is none yet."""
    return path.stat().st_size if path.is_file() else 0


def read_records(path: Path, since: int = 0) -> tuple[dict[str, object], ...]:
    """Return the records of a ledger, in the order in which the jobs ended.

    Args:
        path: The ledger; there may be none yet.
        since: Bytes to leave out, as `ledger_size` gave them before.

    A record has ``output`` and ``source`` (paths as the compiler was given them; no source means a link),
    ``start`` (seconds since 1970), ``wall``, ``user``, ``system`` and ``waited`` (seconds), ``peak_bytes`` (of
    the largest process), ``tree_bytes`` and ``shared_bytes`` (of all its processes at their largest, and the
    part of it that is pages of files), ``expected_bytes``, ``lane`` (CPU slot), ``attempt`` (from 1),
    ``note`` (what the job wrote about itself, see ``--note``), ``stopped`` (by the watch) and ``status``.

    Lines cut short by a kill, or written by something else, are passed over.
    """
    records = []
    text = path.read_bytes()[since:].decode(errors="replace") if path.is_file() else ""
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
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
