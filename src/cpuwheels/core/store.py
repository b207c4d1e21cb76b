"""The stores: finished results on disk, one folder per kind and key.

An entry is made under a temporary name, sealed with a manifest of its files' digests and renamed into
place, so a reader sees all of it or nothing. It is read back against the manifest, in full if anything
about its files has changed or a day is over; an entry that no longer matches is set aside and made again.
A lock per key lets several builds share one store.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from cpuwheels.core.checked_entry import Look, forget
from cpuwheels.core.elsewhere import elsewhere, vouched
from cpuwheels.core.errors import StoreError
from cpuwheels.core.filesystem import (
    changed_at,
    holding,
    last_change_below,
    make_folders,
    remove_tree,
    storage_errors,
    sync_folder,
)
from cpuwheels.core.sealed_entry import MANIFEST, MARKS, check_entry, mark_used, seal
from cpuwheels.core.trust import NAMESPACED, Trust
from cpuwheels.core.usage import current_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cpuwheels.core.elsewhere import Elsewhere, Origin

STALE_DAYS = 14
"""Age at which an interrupted build no longer counts as one that will be resumed."""

log = logging.getLogger(__name__)


def default_root() -> Path:
    """Return where the stores live: ``CPUWHEELS_CACHE``, else the user's cache folder."""
    if chosen := os.environ.get("CPUWHEELS_CACHE"):
        return Path(chosen).expanduser().resolve()
    if sys.platform == "darwin":
        base = Path("~/Library/Caches").expanduser()
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "cpuwheels"


class Store:
    """A folder of sealed results.

    Args:
        root: Folder of all stores; made when first written to.
        check_once: Whether this object reads an entry only once to check it, and skips files of the kind's next entry
            that are hard links to checked ones. Otherwise many builds in a row would read gigabytes.
        trust: Who vouches for the source that results are from; see `cpuwheels.core.trust`.
    """

    def __init__(self, root: Path, *, check_once: bool = False, trust: Trust = Trust.RELEASE) -> None:
        self.root = root
        self.trust = trust
        self._check_once = check_once
        self._whole: set[Path] = set()
        self._last: dict[str, Path] = {}

    def trusting(self, trust: Trust) -> Store:
        """Return this store for a source that somebody else vouches for."""
        if trust is self.trust:
            return self
        other = Store(self.root, check_once=self._check_once, trust=trust)
        other._whole, other._last = self._whole, self._last
        return other

    def folder(self, kind: str) -> Path:
        """Return the folder in which new entries of a kind are made."""
        return self.root / self.trust.value / kind if kind in NAMESPACED else self.root / kind

    def folders(self, kind: str) -> list[Path]:
        """Return the folders in which entries of a kind are looked for, the own first."""
        return list(dict.fromkeys((self.folder(kind), self.root / kind)))

    def everywhere(self, kind: str) -> list[Path]:
        """Return the folders of a kind's entries, whoever vouches for them; to be counted, not to be used."""
        return [self.root / trust.value / kind for trust in Trust] if kind in NAMESPACED else [self.root / kind]

    def is_empty(self, kind: str) -> bool:
        """Return whether there is no entry of a kind, whoever vouches for it."""
        return not any(True for folder in self.everywhere(kind) for _ in folder.glob("[!.]*"))

    def path(self, kind: str, key: str) -> Path:
        """Return where a new entry lies, whether or not it is there."""
        return self.folder(kind) / key

    def has(self, kind: str, key: str) -> bool:
        """Return whether an entry is there, unchecked."""
        return any((folder / key).is_dir() for folder in self.folders(kind))

    def work(self, kind: str, key: str) -> Path:
        """Return the folder in which an entry's making may be interrupted and resumed."""
        apart = f"{self.trust.value}-" if self.trust.value and kind in NAMESPACED else ""
        return self.root / "work" / f"{apart}{kind}-{key}"

    @contextlib.contextmanager
    def working(self, kind: str, key: str) -> Iterator[Path]:
        """Make that folder if need be, and keep it from being removed as a leftover while the block runs."""
        folder = self.work(kind, key)
        with storage_errors(self.root):
            folder.mkdir(parents=True, exist_ok=True)
        with holding(folder):
            yield folder

    @contextlib.contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Yield a new folder for intermediate files, on the stores' file system so that links work; then remove it."""
        base = self.root / "work"
        with storage_errors(base):
            base.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
        with holding(folder):
            try:
                yield folder
            finally:
                remove_tree(folder)

    @contextlib.contextmanager
    def lock(self, kind: str, key: str) -> Iterator[None]:
        """Hold the lock of one entry.

        Raises:
            StoreError: The file system has no locks, or the lock file cannot be made.
        """
        folder = self.root / "locks"
        with contextlib.ExitStack() as held:
            with storage_errors(self.root):
                make_folders(folder)
                # Without locks an interrupted build would lock out the next one (a file that stands for the lock).
                held.enter_context(FileLock(folder / f"{kind}-{key}.lock", fallback_to_soft=False))
            yield

    def find(self, kind: str, key: str, *, of: Path | None = None) -> Path | None:
        """Return a sealed entry whose files all match its manifest, or None.

        An entry that does not match is moved aside, so the next `make` writes a new one.

        Args:
            kind: Its kind.
            key: Its key.
            of: Another entry, found a moment ago; a file that is a second name of one there need not be read again.
        """
        places = [folder / key for folder in self.folders(kind)]
        for entry in places:
            if entry.is_dir() and (entry in self._whole or not self._faults(kind, entry, of)):
                mark_used(entry)
                return entry
        other = elsewhere()
        if not any(entry.is_dir() for entry in places) and (other is None or kind not in other.kinds):
            return None
        # Another process may have replaced it while it was read; only with the lock it stays what it is.
        with self.lock(kind, key):
            return self._found(kind, key, of) or self._taken(kind, key, of)

    def replenish(self, kind: str, key: str, below: str = "") -> None:
        """Add to a folder of small files that is no sealed entry what others have, if this run asks anybody.

        Args:
            kind: Of the folder.
            key: Its name.
            below: Folder within it.
        """
        if other := elsewhere():
            for trust in vouched(kind, self.trust):
                folder = self.trusting(trust).path(kind, key) / below
                with storage_errors(self.root):
                    other.replenish(kind, key, trust, folder)

    def _taken(self, kind: str, key: str, of: Path | None) -> Path | None:
        """Return an entry that somebody else made, once it is in this store; the caller has its lock."""
        other = elsewhere()
        if other is None or kind not in other.kinds:
            return None
        found = (self.trusting(trust).take(other, kind, key, of) for trust in vouched(kind, self.trust))
        return next(filter(None, found), None)

    def take(self, other: Elsewhere, kind: str, key: str, of: Path | None = None) -> Path | None:
        """Return an entry that somebody else made, under the same trust, once it is here; the caller has its lock."""
        with self.fresh(kind, key) as fresh:
            if origin := other.fill(kind, key, self.trust, fresh):
                log.info("store: %s/%s comes from %s", kind, key, origin.place)
                return self._seal(fresh, kind, key, of, origin)
        return None

    @contextlib.contextmanager
    def fresh(self, kind: str, key: str) -> Iterator[Path]:
        """Yield an empty folder that may become an entry; it is gone afterwards if it has not.

        Raises:
            StoreError: The store cannot be written.
            DiskFullError: No space is left.
        """
        folder = self.path(kind, f".new-{key}")
        with storage_errors(self.root):
            remove_tree(folder)
            make_folders(folder.parent)
            folder.mkdir()
        try:
            with storage_errors(self.root):
                yield folder
        finally:
            with contextlib.suppress(OSError):  # the disk that made it fail; the next one removes it
                remove_tree(folder)

    def _found(self, kind: str, key: str, of: Path | None) -> Path | None:
        """Return an entry if it is whole, else take it out; the caller has its lock."""
        for entry in (folder / key for folder in self.folders(kind)):
            if not entry.is_dir():
                continue
            if entry in self._whole or not (faults := self._faults(kind, entry, of)):
                mark_used(entry)
                return entry
            log.warning("store entry %s is damaged (%s); making it again", entry, faults[0])
            self._discard(entry)
        return None

    def _faults(self, kind: str, entry: Path, of: Path | None) -> list[str]:
        """Return what is wrong with an entry, and remember it if that is nothing."""
        try:
            look = Look(entry, MARKS)
        except OSError as error:
            return [f"it cannot be read: {error.strerror}"]
        faults: list[str] = []
        if not look.is_known:
            faults = check_entry(entry, of=of or self._last.get(kind))
            if not faults:
                look.remember()
        if self._check_once and not faults:
            self._whole.add(entry)
            self._last[kind] = entry
        return faults

    def latest(self, kind: str) -> Path | None:
        """Return the whole entry of a kind that was made last, or None if there is none."""
        entries = sorted(self.folder(kind).glob("[!.]*"), key=lambda entry: -changed_at(entry))
        return next((found for entry in entries if (found := self.find(kind, entry.name))), None)

    def discard(self, kind: str, key: str, *, unless: Callable[[Path], bool] | None = None) -> None:
        """Take an entry out of the store.

        Args:
            kind: Its kind.
            key: Its key.
            unless: Says of the entry whether it stays after all, as another process may have made it again meanwhile.
        """
        with self.lock(kind, key):
            if unless is None or not unless(self.path(kind, key)):
                self._discard(self.path(kind, key))

    def _discard(self, entry: Path) -> None:
        self._whole.discard(entry)
        aside = entry.with_name(f".discarded-{entry.name}-{os.getpid()}")
        with storage_errors(self.root):
            remove_tree(aside)
            with contextlib.suppress(FileNotFoundError):
                entry.rename(aside)
            remove_tree(aside)
            forget(entry)

    def get(
        self, kind: str, key: str, make: Callable[[Path], None], *, of: Path | None = None, ask: bool = True
    ) -> Path:
        """Return an entry, calling ``make`` with an empty folder to fill if it is not there.

        Args:
            kind: Its kind.
            key: Its key.
            make: Fills the folder.
            of: As in `find`; ``make`` may link files from there.
            ask: Whether somebody else's is taken, if this run asks anybody.

        Raises:
            StoreError: The store cannot be written, or ``make`` wrote a file with the name of the manifest.
            DiskFullError: No space is left.
        """
        with self.lock(kind, key):
            if found := self._found(kind, key, of):
                log.info("store: %s/%s is there", kind, key)
                return found
            if ask and (found := self._taken(kind, key, of)):
                return found
            log.info("store: making %s/%s", kind, key)
            with self.fresh(kind, key) as fresh:
                make(fresh)
                return self._seal(fresh, kind, key, of)

    def remove_stale_work(self) -> None:
        """Remove unfinished work that nobody went on with for `STALE_DAYS`, and leftovers of killed runs.

        What a living process holds stays, whatever the clock says.
        """
        oldest = time.time() - STALE_DAYS * 24 * 3600
        for folder in (self.root / "work").glob("*"):
            if changed_at(folder) < oldest:
                with holding(folder) as free:
                    if free and last_change_below(folder) < oldest:
                        remove_tree(folder)

    def _seal(self, fresh: Path, kind: str, key: str, of: Path | None, origin: Origin | None = None) -> Path:
        entry = self.path(kind, key)
        if os.path.lexists(fresh / MANIFEST):
            raise StoreError(
                f"{MANIFEST} at the top of what is to be stored is where the store writes its own file",
                where=entry,
                next_step=f"take {MANIFEST} out of the source, or rename it there",
            )
        seal(fresh, entry, kind, key, of, origin)
        fresh.rename(entry)
        sync_folder(entry.parent)
        current_usage().made(entry)
        return entry
