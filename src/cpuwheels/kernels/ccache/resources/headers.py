"""Leaves a precompiled header in the compiler cache until a compiler reads it.

A header of torch has 400 MB. After a small change most files come out of the cache, and most headers have no reader.
ccache looks at ``HEADER.gch.sum`` in place of ``HEADER.gch`` (its manual, pch_external_checksum); it is written here:

    headers.py defer COMMAND...    in place of the cache's command for a header
    headers.py need HEADER.gch     before a compiler that reads it

``defer`` runs the command only if a header was not made by it before from the same files. Else it leaves an empty
header, ``HEADER.gch.sum``, and the command in ``HEADER.gch.deferred``. Both run in a build, by the build's Python.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = "headers"
"""Folder of the records, below the compiler cache."""

KEPT = 64
"""Records that stay, those that were used last; a build has up to ten."""

_STORED = {"cache_miss", "direct_cache_hit", "preprocessed_cache_hit"}
"""Of ccache's outcomes those after which it has the result."""

_NAME = re.compile(r"(?:[^\s\\]|\\.)+")
"""A file in the dependencies of a compiler, where a backslash is before a blank or ends the line."""


def defer(command: list[str]) -> int:
    """Make the header that a command makes, or leave it in the cache; return the command's status."""
    following = dict(itertools.pairwise(command))
    header, depfile = Path(following.get("-o", "")), Path(following.get("-MF", ""))
    if header.suffix != ".gch" or not depfile.name:
        return subprocess.call(command)
    record = Path(os.environ["CCACHE_DIR"], RECORDS, f"{_key(command)}.json")
    known = _known(record)
    if known is None:
        for path in (Path(f"{header}.deferred"), header):  # of an earlier command
            path.unlink(missing_ok=True)
        if status := subprocess.call(command):
            return status
        content = _digest(header)
        _write(Path(f"{header}.sum"), content)
        if _was_stored():
            _keep(record, depfile, content)
        return 0
    _write(Path(f"{header}.deferred"), json.dumps(command))
    _write(Path(f"{header}.sum"), known["content"])
    _write(depfile, known["dependencies"])
    _write(header, "")
    with contextlib.suppress(FileNotFoundError):
        os.utime(record)
    _note("direct_cache_hit")
    return 0


def need(header: Path) -> int:
    """Take a header out of the cache, unless somebody has; return the status of the cache's command."""
    header = Path(os.path.relpath(header))  # it is whole where ccache did not take the reader's command
    deferred, content = Path(f"{header}.deferred"), Path(f"{header}.sum")
    with Path(f"{header}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            command = json.loads(deferred.read_text())
        except FileNotFoundError:
            return 0
        # The outcome of the job is that of the file that reads the header. ccache has its own switched off below it.
        theirs = {"CCACHE_DISABLE", "CCACHE_PREFIX", "CCACHE_STATSLOG"}
        environment = {name: value for name, value in os.environ.items() if name not in theirs}
        with _shadow(header) as folder:
            there = [word.replace(str(Path.cwd()), str(folder)) for word in command]
            if status := subprocess.call(there, cwd=folder, env=environment):
                return status
            # ccache stores nothing that was made from a file that is younger than the job.
            time = content.stat().st_mtime_ns
            os.utime(folder / header, ns=(time, time))
            (folder / header).replace(header)
        deferred.unlink()
    return 0


@contextlib.contextmanager
def _shadow(header: Path) -> Iterator[Path]:
    """Make a folder next to this one with the same files but for those of a header.

    ccache has another name for what a header's command makes if the header is there, and for what its readers make if
    it is not.
    """
    with tempfile.TemporaryDirectory(dir=Path.cwd().parent, prefix="header-") as name:
        real, place = Path.cwd(), Path(name)
        for part in header.parts:
            for path in real.iterdir():
                if path.name != part and not path.name.startswith(header.name):
                    (place / path.name).symlink_to(path)
            real, place = real / part, place / part
            if part != header.name:
                place.mkdir()
        yield Path(name)


def _key(command: list[str]) -> str:
    """Return what names a command in every folder that is built in, as ccache does (its manual, base_dir)."""
    here, base = Path.cwd(), Path(os.environ["CCACHE_BASEDIR"])
    folders = [folder for folder in (here, *here.parents) if base in folder.parents]
    words = command
    for folder in folders:
        words = [word.replace(str(folder), os.path.relpath(folder, here)) for word in words]
    return hashlib.sha256(json.dumps([os.environ["CCACHE_COMPILERCHECK"], *words]).encode()).hexdigest()


def _known(record: Path) -> dict[str, str] | None:
    """Return what a record says if the files are those that the header was made from."""
    try:
        known: dict[str, str] = json.loads(record.read_text())
        same = bool(known["content"]) and known["files"] == _files_digest(known["dependencies"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return known if same else None


def _keep(record: Path, depfile: Path, content: str) -> None:
    """Write a record, unless the dependencies name the folder of this build; remove those of long ago."""
    dependencies = depfile.read_text()
    files = _files_digest(dependencies)
    if files is None or any(str(Path.cwd()) in name for name in _names(dependencies)):
        return
    record.parent.mkdir(exist_ok=True)
    _write(record, json.dumps({"dependencies": dependencies, "files": files, "content": content}))
    with contextlib.suppress(FileNotFoundError):  # another build removes them, too
        by_age = sorted(record.parent.glob("*.json"), key=lambda path: -path.stat().st_mtime)
        for old in by_age[KEPT:]:
            old.unlink()


def _files_digest(dependencies: str) -> str | None:
    """Return a digest of the files that a compiler reported as read, None if one is not there."""
    digest = hashlib.sha256()
    for name in _names(dependencies):
        try:
            digest.update(f"{name}\0{_digest(Path(name))}\n".encode())
        except OSError:
            return None
    return digest.hexdigest()


def _names(dependencies: str) -> list[str]:
    names = _NAME.findall(dependencies.replace("\\\n", " ").partition(": ")[2])
    return sorted({re.sub(r"\\(.)", r"\1", name).replace("$$", "$") for name in names})


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()


def _write(path: Path, text: str) -> None:
    """Write a file so that it is never there in part."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(path)


def _was_stored() -> bool:
    """Return whether the cache has what its command has just made, by what it noted."""
    try:
        return not _STORED.isdisjoint(Path(os.environ["CCACHE_STATSLOG"]).read_text().split())
    except (KeyError, OSError):
        return False


def _note(outcome: str) -> None:
    if note := os.environ.get("CCACHE_STATSLOG"):
        with Path(note).open("a") as stream:
            stream.write(f"{outcome}\n")


if __name__ == "__main__":
    _, _what, *_words = sys.argv
    sys.exit(defer(_words) if _what == "defer" else need(Path(_words[0])))
