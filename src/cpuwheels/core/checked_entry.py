"""What a store remembers of an entry that was found whole, so that the next command need not read gigabytes again.

It keeps a digest of the size, the inode and the times of each file and folder, as git's index does. Of these the time
of the last change (``st_ctime``) is the system's own: no program can set it back. Disks also lose bytes without any
change, and a power cut what was not written yet, so an entry is read again once a day and after a start of the machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from typing import TYPE_CHECKING

import psutil

from cpuwheels.core.digests import file_digest
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PREFIX = ".checked-"
"""Of the file's name, which lies next to the entry."""

TRUSTED_SECONDS = 24 * 3600
"""For how long an entry is not read again."""

_SETTLED_SECONDS = 2.0
"""How long before the check the last change has to be: two changes in one tick of the clock have the same time."""

_LONGEST = 4096


class Look:
    """An entry as its folders list it.

    Args:
        entry: The entry.
        marks: Files at its top whose times change whenever it is used; their content counts in place of these.

    Raises:
        OSError: It cannot be read.
    """

    def __init__(self, entry: Path, marks: Iterable[str]) -> None:
        self._entry = entry
        self._began = time.time()
        self._changed = 0
        self._marks = frozenset(marks)
        found = hashlib.sha256()
        folders = [""]
        for folder in folders:
            lines, below = self._list(folder)
            found.update(f"{folder}\0{len(lines)}\n{''.join(lines)}".encode("utf-8", "surrogateescape"))
            folders += below
        self._digest = found.hexdigest()

    def _list(self, folder: str) -> tuple[list[str], list[str]]:
        """Return a line for each member of a folder, and the folders in it; a store has tens of thousands of these."""
        with os.scandir(f"{self._entry}/{folder}") as members:
            found = sorted((member.name, member.stat(follow_symlinks=False)) for member in members)
        lines, below = [], []
        for name, status in found:
            mode, ctime = status.st_mode, status.st_ctime_ns
            if not folder and name in self._marks and stat.S_ISREG(mode):  # nothing is ever read from a pipe
                lines.append(f"{name}\0{file_digest(self._entry / name)}\n")
                continue
            self._changed = max(self._changed, ctime)
            lines.append(f"{name}\0{mode} {status.st_ino} {status.st_size} {status.st_mtime_ns} {ctime}\n")
            if stat.S_ISDIR(mode):
                below.append(f"{folder}{name}/")
        return lines, below

    @property
    def is_known(self) -> bool:
        """Whether the entry was whole when it looked the same, and that is not long ago."""
        try:
            said = json.loads(read_plain(self._file, _LONGEST))
            age = self._began - float(said["checked"])
            return bool(0 <= age < TRUSTED_SECONDS and (said["look"], said["boot"]) == (self._digest, _boot()))
        except (OSError, ValueError, TypeError, KeyError):
            return False

    def remember(self) -> None:
        """Note that the entry is whole; a store that cannot be written stays as it is.

        It must have looked like this before it was read, and not have changed a moment before.
        """
        if self._began - self._changed / 1e9 < _SETTLED_SECONDS:
            return
        with contextlib.suppress(OSError):
            said = {"checked": self._began, "boot": _boot(), "look": self._digest}
            write_atomic(self._file, json.dumps(said) + "\n")

    @property
    def _file(self) -> Path:
        return _file_of(self._entry)


def _boot() -> int:
    """Return when this machine was started, as a Unix time."""
    return round(psutil.boot_time())


def forget(entry: Path) -> None:
    """Remove what is remembered of an entry.

    Raises:
        OSError: It cannot be removed.
    """
    _file_of(entry).unlink(missing_ok=True)


def _file_of(entry: Path) -> Path:
    return entry.with_name(f"{PREFIX}{entry.name}")
