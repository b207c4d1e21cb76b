"""The stores: finished results on disk, one folder per kind and key.

An entry is made under a temporary name, sealed with a manifest of its files' digests and renamed into
place, so a reader sees all of it or nothing. It is read back against the manifest; an entry that no longer
matches is set aside and made again. A lock per key lets several builds share one store.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from cpuwheels.core.digests import entry_digest, tree_names
from cpuwheels.core.errors import StoreError
from cpuwheels.core.filesystem import link_or_copy, remove_tree, storage_errors, sync_folder, write_atomic
from cpuwheels.core.trust import NAMESPACED, Trust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MANIFEST = ".cpuwheels-manifest.json"

STALE_DAYS = 14
"""Age at which an interrupted build no longer counts as one that will be resumed."""

MOVABLE = frozenset({"downloads", "sources", "prepared", "onednn", "acl"})
"""Kinds whose entries hold no path of their own, so that they may be moved or copied to another store."""

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
    def scratch(self, name: str) -> Iterator[Path]:
        """Yield a new folder for intermediate files, on the stores' file system so that links work; then remove it."""
        base = self.root / "work"
        with storage_errors(base):
            base.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
        try:
            yield folder
        finally:
            remove_tree(folder)

    def lock(self, kind: str, key: str) -> FileLock:
        """Return the lock of one entry, not yet taken."""
        folder = self.root / "locks"
        with storage_errors(self.root):
            folder.mkdir(parents=True, exist_ok=True)
            return FileLock(folder / f"{kind}-{key}.lock")

    def find(self, kind: str, key: str, *, of: Path | None = None) -> Path | None:
        """Return a sealed entry whose files all match its manifest, or None.

        An entry that does not match is moved aside, so the next `make` writes a new one.

        Args:
            kind: Its kind.
            key: Its key.
            of: Another entry, found a moment ago; a file that is a second name of one there need not be read again.
        """
        found = (self._whole_entry(folder / key, kind, of) for folder in self.folders(kind))
        return next((entry for entry in found if entry), None)

    def _whole_entry(self, entry: Path, kind: str, of: Path | None) -> Path | None:
        if not entry.is_dir():
            return None
        if entry in self._whole:
            return entry
        if faults := check_entry(entry, of=of or self._last.get(kind)):
            log.warning("store entry %s is damaged (%s); making it again", entry, faults[0])
            self._discard(entry)
            return None
        if self._check_once:
            self._whole.add(entry)
            self._last[kind] = entry
        return entry

    def latest(self, kind: str) -> Path | None:
        """Return the whole entry of a kind that was made last, or None if there is none."""
        entries = sorted(self.folder(kind).glob("[!.]*"), key=lambda entry: -entry.stat().st_mtime)
        return next((found for entry in entries if (found := self.find(kind, entry.name))), None)

    def discard(self, kind: str, key: str) -> None:
        """Take an entry out of the store."""
        self._discard(self.path(kind, key))

    def _discard(self, entry: Path) -> None:
        self._whole.discard(entry)
        aside = entry.with_name(f".discarded-{entry.name}-{os.getpid()}")
        with storage_errors(self.root):
            if entry.exists():
                entry.rename(aside)
            remove_tree(aside)

    def get(self, kind: str, key: str, make: Callable[[Path], None], *, of: Path | None = None) -> Path:
        """Return an entry, calling ``make`` with an empty folder to fill if it is not there.

        Args:
            kind: Its kind.
            key: Its key.
            make: Fills the folder.
            of: As in `find`; ``make`` may link files from there.

        Raises:
            StoreError: The store cannot be written, or ``make`` wrote a file with the name of the manifest.
            DiskFullError: No space is left.
        """
        with self.lock(kind, key):
            if found := self.find(kind, key, of=of):
                log.info("store: %s/%s is there", kind, key)
                return found
            log.info("store: making %s/%s", kind, key)
            fresh = self.path(kind, f".new-{key}")
            with storage_errors(self.root):
                remove_tree(fresh)
                fresh.mkdir(parents=True)
            try:
                with storage_errors(self.root):
                    make(fresh)
                    return self._seal(fresh, kind, key, of)
            except BaseException:
                remove_tree(fresh)
                raise

    def remove_stale_work(self) -> None:
        """Remove unfinished work that nobody went on with for `STALE_DAYS`, and leftovers of killed runs."""
        oldest = time.time() - STALE_DAYS * 24 * 3600
        for folder in (self.root / "work").glob("*"):
            if folder.stat().st_mtime < oldest:
                remove_tree(folder)

    def share(self, kinds: Iterable[str], other: Path) -> None:
        """Copy this store's entries of some movable kinds to another store, by hard links where possible.

        Raises:
            StoreError: The other store cannot be written.
        """
        with storage_errors(other):
            for kind in kinds:
                for entry in sorted((self.root / kind).glob("[!.]*")):
                    if (other / kind / entry.name).exists():
                        continue
                    fresh = other / kind / f".new-{entry.name}"
                    remove_tree(fresh)
                    shutil.copytree(entry, fresh, symlinks=True, copy_function=link_or_copy)
                    fresh.rename(other / kind / entry.name)

    def _seal(self, fresh: Path, kind: str, key: str, of: Path | None) -> Path:
        entry = self.path(kind, key)
        if os.path.lexists(fresh / MANIFEST):
            raise StoreError(
                f"{MANIFEST} at the top of what is to be stored is where the store writes its own file",
                where=entry,
                next_step=f"take {MANIFEST} out of the source, or rename it there",
            )
        digests = _Digests(fresh, of)
        files = {name: digests.of(name) for name in tree_names(fresh)}
        manifest = {"kind": kind, "key": key, "place": str(entry), "files": files}
        write_atomic(fresh / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        fresh.rename(entry)
        sync_folder(entry.parent)
        return entry


class _Digests:
    """The digests of a folder's files; those that are second names of another entry's files are taken from there."""

    def __init__(self, folder: Path, of: Path | None) -> None:
        self._folder = str(folder)
        self._of = of
        self._known: dict[str, str] = {}
        if of is not None:
            with contextlib.suppress(OSError, ValueError, KeyError):  # what is not sealed is read
                self._known = sealed_digests(of)

    def of(self, name: str) -> str:
        path = f"{self._folder}/{name}"
        if self._of is not None and name in self._known:
            with contextlib.suppress(FileNotFoundError):  # what the other entry has lost meanwhile is read
                here, there = os.lstat(path), os.lstat(f"{self._of}/{name}")
                if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                    return self._known[name]
        return entry_digest(path)


def sealed_digests(entry: Path) -> dict[str, str]:
    """Return the digest of each of an entry's files, as its manifest has them.

    Raises:
        OSError: It has no manifest.
        ValueError: The manifest is damaged.
        KeyError: Likewise.
    """
    files: dict[str, str] = json.loads((entry / MANIFEST).read_text())["files"]
    return files


def skip_manifest(entry: Path) -> Callable[[str, list[str]], set[str]]:
    """Return what makes `shutil.copytree` leave out an entry's manifest, and no file of that name further down."""
    top = os.fspath(entry)
    return lambda folder, _: {MANIFEST} if os.fspath(folder) == top else set()


def check_entry(entry: Path, *, of: Path | None = None) -> list[str]:
    """Return everything wrong with a sealed entry; an empty list means it is as it was made.

    An entry that was moved counts as wrong unless its kind is movable: unpacked toolchains, for one, hold
    their own absolute path.

    Args:
        entry: The entry.
        of: Another entry that was checked a moment ago; what is a second name of a file there is not read again.
    """
    try:
        manifest = json.loads((entry / MANIFEST).read_text())
        files: dict[str, str] = manifest["files"]
        place: str = manifest["place"]
        digests = _Digests(entry, of)
    except (OSError, ValueError, KeyError) as error:
        return [f"manifest unreadable: {error}"]
    if place != str(entry) and manifest["kind"] not in MOVABLE:
        return [f"it was made for {place}"]
    present = set(tree_names(entry)) - {MANIFEST}
    faults = [f"{name} is missing" for name in sorted(files.keys() - present)]
    faults += [f"{name} is not in the manifest" for name in sorted(present - files.keys())]
    faults += [f"{name} has other bytes" for name in sorted(files.keys() & present) if digests.of(name) != files[name]]
    return faults
