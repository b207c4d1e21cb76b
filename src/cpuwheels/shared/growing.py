"""Folders of small files that every build may add to: how those of a shared store and of this machine are put together.

Lists of what compilers read have the digest of their text as their name, so one of them is never another's. Of two
tables of costs the newer rows count, which are this machine's. A file of oneDNN is unused if both found it unused.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from typing import TYPE_CHECKING

from cpuwheels.core.digests import text_digest
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.plain_file import NotPlainError, read_plain
from cpuwheels.kernels.memory.costs import read_costs, write_costs
from cpuwheels.kernels.onednn_pruning import read_unused, still_unused, write_unused
from cpuwheels.shared.kinds import READS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST = 200
"""Lists of one key that are shared, the latest; vLLM 0.32.0's has 60 KB."""

_LARGEST = 4 << 20
"""Bytes of a list or a table."""

_LIST = re.compile(r"[0-9a-f]{16}\.json")
_TABLE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,80}\.tsv")
_UNUSED = re.compile(r"onednn-[a-z0-9_-]{1,60}\.txt")


def add_missing(kind: str, found: Path, folder: Path) -> None:
    """Add what a shared store has to a folder of this machine's.

    Lists that are there stay. Tables of costs are in a folder of their own, which is replaced.

    Args:
        kind: Of the folder.
        found: What the shared store has.
        folder: Of this machine; made if something comes.
    """
    for path, content in _files(found, (_LIST,) if kind == READS else (_TABLE, _UNUSED)):
        named = path.name == f"{text_digest(content.decode(errors='replace'))[:16]}.json"
        if kind != READS or (named and not (folder / path.name).is_file()):
            write_atomic(folder / path.name, content)


def put_together(kind: str, ours: Path, theirs: Path, target: Path) -> bool:
    """Fill a folder with what this machine and a shared store have, and return whether that is more than theirs.

    Args:
        kind: Of the folders.
        ours: This machine's; there may be none.
        theirs: The shared store's; may be empty.
        target: An empty folder.
    """
    if kind == READS:
        _lists(ours, theirs, target)
    else:
        _tables(ours, theirs, target)
    return _contents(target) != _contents(theirs)


def _lists(ours: Path, theirs: Path, target: Path) -> None:
    latest = sorted(_files(ours, (_LIST,)), key=lambda one: -one[0].stat().st_mtime)
    names: dict[str, bytes] = {}
    for path, content in (*latest, *_files(theirs, (_LIST,))):
        if len(names) < MOST:
            names.setdefault(path.name, content)
    for name, content in names.items():
        (target / name).write_bytes(content)


def _tables(ours: Path, theirs: Path, target: Path) -> None:
    for path, _ in _files(theirs, (_TABLE, _UNUSED)):
        shutil.copyfile(path, target / path.name)
    for path, _ in _files(ours, (_TABLE, _UNUSED)):
        known = target / path.name
        if path.suffix == ".tsv":
            write_costs(known, {**read_costs(known), **read_costs(path)})
        else:
            write_unused(known, still_unused(read_unused(known), read_unused(path)))


def _files(folder: Path, patterns: tuple[re.Pattern[str], ...]) -> Iterator[tuple[Path, bytes]]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if any(pattern.fullmatch(path.name) for pattern in patterns):
            with contextlib.suppress(NotPlainError, FileNotFoundError):  # no file, too large, or removed meanwhile
                yield path, read_plain(path, _LARGEST)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: content for path, content in _files(folder, (_LIST, _TABLE, _UNUSED))}
