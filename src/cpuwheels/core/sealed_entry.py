"""Entries of the stores: sealed with a manifest of their files' digests, and compared with it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from cpuwheels.core.digests import entry_digest, tree_contents
from cpuwheels.core.elsewhere import Origin
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MANIFEST = ".cpuwheels-manifest.json"

MOVABLE = frozenset({"downloads", "sources", "prepared", "onednn", "acl"})
"""Kinds whose entries hold no path of their own, so that they may be moved or copied to another store."""

_MOST_BYTES = 256 << 20
"""Of a manifest; torch's has two."""

MARKS = (MANIFEST, "pyvenv.cfg")
"""Files of which one is in each entry, and whose time of reading says when it was used."""


def seal(folder: Path, entry: Path, kind: str, key: str, of: Path | None, origin: Origin | None = None) -> None:
    """Write the manifest of a folder that is to become an entry.

    Args:
        folder: The folder.
        entry: What it will be called.
        kind: Its kind.
        key: Its key.
        of: Another entry that was checked a moment ago; what is a second name of a file there is not read.
        origin: Where it came from, if it was not made here.
    """
    digests = _Digests(folder, of)
    contents = tree_contents(folder)
    files = {name: digests.of(name) for name in contents.files}
    manifest = {
        "kind": kind,
        "key": key,
        "place": str(entry),
        "files": files,
        "empty_folders": list(contents.empty_folders),
        **({"origin": asdict(origin)} if origin else {}),
    }
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


class _Digests:
    """The digests of a folder's files; those that are second names of another entry's files are taken from there."""

    def __init__(self, folder: Path, of: Path | None) -> None:
        self._folder = str(folder)
        self._of = of
        self._known: dict[str, str] = {}
        if of is not None:
            with contextlib.suppress(OSError, ValueError):  # what is not sealed is read
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
    """
    return _Manifest(entry).files


def sealed_origin(entry: Path) -> Origin | None:
    """Return where an entry came from; None if it was made here, or nothing says it."""
    try:
        return _Manifest(entry).origin
    except (OSError, ValueError):
        return None


def entry_file(path: Path) -> str:
    """Return a name of a file that is the same in the stores of every machine: kind, key and path of a sealed entry.

    A program of an entry may hold the path of its own folder, so that its digest is another one in other stores.

    Args:
        path: Of the file; links are followed.

    Returns:
        Empty if it is in no sealed entry.
    """
    real = path.resolve()
    entry = next((folder for folder in real.parents if (folder / MANIFEST).is_file()), None)
    return "" if entry is None else f"{entry.parent.name}/{entry.name}/{real.relative_to(entry).as_posix()}"


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
        manifest = _Manifest(entry)
        digests = _Digests(entry, of)
        contents = tree_contents(entry)
        present = set(contents.files) - {MANIFEST}
        files = manifest.files
        if manifest.place != str(entry) and manifest.kind not in MOVABLE:
            return [f"it was made for {manifest.place}"]
        faults = [f"{name} is missing" for name in sorted(files.keys() - present)]
        faults += [f"{name} is not in the manifest" for name in sorted(present - files.keys())]
        faults += [f"{name} is neither file, link nor folder" for name in contents.others]
        if manifest.empty_folders is not None:
            changed = sorted(manifest.empty_folders ^ set(contents.empty_folders))
            faults += [f"{name} is an empty folder only now, or no longer" for name in changed]
        faults += [
            f"{name} has other bytes" for name in sorted(files.keys() & present) if digests.of(name) != files[name]
        ]
    except (OSError, ValueError) as error:
        return [f"manifest unreadable: {error}"]
    return faults


class _Manifest:
    """What an entry's manifest says.

    Raises:
        OSError: There is none, or it is no plain file.
        ValueError: It is damaged.
    """

    def __init__(self, entry: Path) -> None:
        try:
            said = json.loads(read_plain(entry / MANIFEST, _MOST_BYTES))
            files, folders = said["files"], said.get("empty_folders")
            self.kind, self.place = str(said["kind"]), str(said["place"])
            self.files: dict[str, str] = {name: digest.lower() for name, digest in files.items()}
            # Manifests of earlier versions do not have them.
            self.empty_folders: set[str] | None = None if folders is None else {str(name) for name in folders}
            self.origin = Origin(**said["origin"]) if "origin" in said else None
        except (TypeError, AttributeError, KeyError, RecursionError) as error:
            raise ValueError("it is not what a manifest is") from error


def mark_used(entry: Path) -> None:
    """Note that an entry is used now, for `cpuwheels.core.cleaning`; stores that cannot be written stay as they are."""
    for path in (entry / name for name in MARKS):
        with contextlib.suppress(OSError):
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def used_at(entry: Path) -> float:
    """Return when an entry was used last, as a Unix time; 0 if nothing says."""
    latest = 0.0
    for path in (entry / name for name in MARKS):
        with contextlib.suppress(OSError):
            latest = max(latest, path.stat().st_atime)
    return latest
