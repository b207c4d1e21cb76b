"""Removing from the stores what nobody used for long, and what killed runs left.

What is removed is made or fetched again when it is wanted. Entries that share files by hard links count as what they
take together, so that sizes are those that the disk gains.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.core.checked_entry import forget
from cpuwheels.core.errors import StoreError
from cpuwheels.core.filesystem import BLOCK, changed_at, holding, regular_files, remove_tree, storage_errors
from cpuwheels.core.sealed_entry import used_at
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

DAYS = 30
"""Age of the last use from which on an entry is removed, if no other is given."""

RECENT_DAYS = 1
"""How long an entry stays after its last use, whatever the size, unless less is asked for."""

COMPILER_CACHE = "compiler-cache"
_LEFTOVERS = (".new-", ".discarded-")
_DAY = 24 * 3600

_File = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True)
class Entry:
    """Something in the stores that can be removed as a whole.

    Attributes:
        kind: The store's.
        path: Its folder.
        used: When a run last took it, as a Unix time; 0 for what a killed run left.
        files: The bytes of each of its files, on disk.
    """

    kind: str
    path: Path
    used: float
    files: dict[_File, int] = field(repr=False)


@dataclass(frozen=True)
class Kind:
    """What a run did with one kind of entries; sizes in bytes, each shared file counted once for each kind.

    Attributes:
        name: Of the kind.
        entries: How many there were.
        size: What they took.
        removed: How many of them are removed.
        freed: What these took and no entry that stays has.
    """

    name: str
    entries: int
    size: int
    removed: int
    freed: int


@dataclass(frozen=True)
class Cleaning:
    """What a run did; sizes in bytes, each shared file counted once."""

    kinds: tuple[Kind, ...]
    size: int
    freed: int


def clean(root: Path, *, days: float = DAYS, down_to: int | None = None, dry_run: bool = False) -> Cleaning:
    """Remove entries that were not used for some days, then, the longest unused first, until a size is reached.

    Args:
        root: Folder of all stores.
        days: How long an entry stays that nobody uses.
        down_to: Bytes that may stay; None for any number. What was used in the last `RECENT_DAYS` stays in any case.
        dry_run: Whether nothing is removed.

    Raises:
        StoreError: A run uses the stores, or they cannot be written.
    """
    if not root.is_dir():
        return Cleaning((), 0, 0)
    with storage_errors(root), holding(root) as free:
        if not free and not dry_run:
            raise StoreError(
                "the stores are in use, or their file system has no locks",
                where=root,
                next_step="wait until no other cpuwheels runs; --dry-run shows what would be removed",
            )
        entries = tuple(_entries(root))
        now = time.time()
        recent = now - min(days, RECENT_DAYS) * _DAY
        gone = chosen(entries, oldest=now - days * _DAY, recent=recent, down_to=down_to)
        if not dry_run:
            Store(root).remove_stale_work()
            for entry in gone:
                remove_tree(entry.path)
                forget(entry.path)
        return _summary(entries, gone)


def chosen(entries: Iterable[Entry], *, oldest: float, recent: float, down_to: int | None) -> list[Entry]:
    """Return the entries to be removed, the longest unused first.

    Args:
        entries: All there are.
        oldest: What was used before is removed, as a Unix time.
        recent: What was used since then stays, as a Unix time.
        down_to: Bytes that may stay; None for any number.
    """
    ordered = sorted(entries, key=lambda entry: (entry.used, entry.path))
    names = Counter(file for entry in ordered for file in entry.files)
    left = sum({file: size for entry in ordered for file, size in entry.files.items()}.values())
    found = []
    for entry in ordered:
        if entry.used >= oldest and (down_to is None or left <= down_to or entry.used >= recent):
            break
        names.subtract(entry.files.keys())
        left -= sum(size for file, size in entry.files.items() if not names[file])
        found.append(entry)
    return found


def _entries(root: Path) -> Iterator[Entry]:
    for base in (root / trust.value for trust in Trust):
        for folder in _folders(base):
            if folder.name != COMPILER_CACHE:
                yield from _of_kind(folder)
            elif base == root:
                yield _compiler_cache(folder)
            else:
                yield from map(_compiler_cache, _folders(folder))


def _of_kind(folder: Path) -> Iterator[Entry]:
    for path in _folders(folder):
        left = path.name.startswith(_LEFTOVERS)
        if left or used_at(path):
            yield Entry(folder.name, path, 0.0 if left else used_at(path), _files(path))


def _compiler_cache(folder: Path) -> Entry:
    # ccache puts a file there for each compilation, and takes it away.
    return Entry(COMPILER_CACHE, folder, max(changed_at(folder), changed_at(folder / "tmp")), _files(folder))


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())


def _files(folder: Path) -> dict[_File, int]:
    return {(one.st_dev, one.st_ino): one.st_blocks * BLOCK for _, one in regular_files(folder)}


def _summary(entries: tuple[Entry, ...], gone: list[Entry]) -> Cleaning:
    paths = {entry.path for entry in gone}
    kept = [entry for entry in entries if entry.path not in paths]
    stays = {file for entry in kept for file in entry.files}
    kinds = []
    for name in sorted({entry.kind for entry in entries}):
        of_kind = [entry for entry in entries if entry.kind == name]
        removed = [entry for entry in gone if entry.kind == name]
        kinds.append(Kind(name, len(of_kind), _size(of_kind), len(removed), _size(removed, stays)))
    return Cleaning(tuple(kinds), _size(entries), _size(gone, stays))


def _size(entries: Iterable[Entry], without: Iterable[_File] = ()) -> int:
    files = {file: size for entry in entries for file, size in entry.files.items()}
    return sum(files.values()) - sum(files.get(file, 0) for file in set(without))
