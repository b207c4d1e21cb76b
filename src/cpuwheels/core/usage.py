"""What a run fetched from the network, and what it added to the stores.

Whatever fetches or stores something notes it here. A run that does neither pays nothing, and of the stores no more is
walked than the entries that the run made.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import BLOCK, regular_files
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

ENVIRONMENTS = "environments"
"""Kind of the entries whose files may have other names in uv's cache."""

HTTP, GIT, INSTALLERS = "http", "git", "uv and pip"
"""What fetches: this program, and those that it starts."""

_MADE_HERE = (".idx", ".rev", ".promisor", ".keep", ".bitmap", ".mtimes")
"""Ends of the names of what git itself writes next to the packs that it fetches."""

_ACTIVE: ContextVar[Usage | None] = ContextVar("usage", default=None)
_File = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True)
class Fetched:
    """What came over the network.

    Attributes:
        size: Bytes by what fetched them, of content alone. Of HTTP: of every answer, pages and failed attempts too. Of
            git: of the packs and objects that it kept. Of uv and pip: the sizes of the files.
        files: How many whole files came; git's objects are none.
        unknown: Packages that uv fetched without saying how large they are.
    """

    size: dict[str, int]
    files: int
    unknown: tuple[str, ...] = ()

    def as_sentence(self) -> str:
        """Return it for people; nothing if nothing was fetched."""
        size, git = sum(size for way, size in self.size.items() if way != GIT), self.size.get(GIT, 0)
        parts = []
        if size or self.files:
            counted = f" in {self.files} file{'s' * (self.files != 1)}" if self.files else ""
            more = f" ({len(self.unknown)} of them of unknown size)" if self.unknown else ""
            parts.append(f"{format_size(size)}{counted}{more}")
        if git:
            parts.append(f"{format_size(git)} with git")
        return f"fetched {' and '.join(parts)}" if parts else ""


@dataclass
class Usage:
    """Counts for one run; several threads may note."""

    _sizes: Counter[str] = field(default_factory=Counter)
    _files: int = 0
    _unknown: list[str] = field(default_factory=list)
    _made: dict[Path, None] = field(default_factory=dict)
    _growing: dict[Path, tuple[str, str, set[_File]]] = field(default_factory=dict)
    _temporary: list[Path] = field(default_factory=list)
    _stored: dict[str, int] | None = None
    _guard: threading.RLock = field(default_factory=threading.RLock)

    def received(self, size: int) -> None:
        """Note bytes of an answer of a web server."""
        with self._guard:
            self._sizes[HTTP] += size

    def file(self) -> None:
        """Note that a file is whole whose bytes were received."""
        with self._guard:
            self._files += 1

    def installer(self, package: str, size: int | None) -> None:
        """Note a file that uv or pip fetched.

        Args:
            package: What it is of.
            size: Bytes; None if that is not known.
        """
        with self._guard:
            self._files += 1
            if size is None:
                self._unknown.append(package)
            else:
                self._sizes[INSTALLERS] += size

    def made(self, entry: Path) -> None:
        """Note a new entry of the stores."""
        with self._guard:
            self._made[entry], self._stored = None, None

    def growing(self, folder: Path, kind: str, *, fetched_by: str = "") -> None:
        """Note a folder of the stores that is no entry, before something is added to it.

        Args:
            folder: The folder; it need not be there yet.
            kind: What it is counted as.
            fetched_by: What fetches that over the network, if something does.
        """
        with self._guard:
            known = self._growing.get(folder)
            before = known[2] if known else {_file(one) for _, one in regular_files(folder)}
            self._growing[folder], self._stored = (kind, fetched_by, before), None

    def temporary(self, folder: Path) -> None:
        """Note a folder that goes with the run, and in which files of new entries may have other names."""
        with self._guard:
            self._temporary.append(folder)
            self._stored = None

    def fetched(self) -> Fetched:
        """Return what came over the network by now."""
        with self._guard:
            sizes = Counter(self._sizes)
            for _, way, name, one in self._grown():
                if way and not name.endswith(_MADE_HERE):
                    sizes[way] += one.st_size
            return Fetched(dict(sizes), self._files, tuple(self._unknown))

    def stored(self) -> dict[str, int]:
        """Return the bytes on disk that were added to the stores by now, by kind, each file counted once.

        A file that has a name in no new entry is not counted: an older entry has it, too. Those of environments are,
        since their other names are in uv's cache, which is none of the stores.
        """
        with self._guard:
            if self._stored is None:
                self._stored = self._measured()
            return self._stored

    def as_sentence(self) -> str:
        """Return what was fetched and added, for people; nothing if that is nothing."""
        stored = self.stored()
        parts = [self.fetched().as_sentence()]
        if stored:
            most = max(stored, key=lambda kind: stored[kind])
            largest = f", the most of it {most} ({format_size(stored[most])})" if len(stored) > 1 else ""
            parts.append(f"added {format_size(sum(stored.values()))} to the stores{largest}")
        return "; ".join(filter(None, parts))

    def _grown(self) -> Iterator[tuple[str, str, str, os.stat_result]]:
        for folder, (kind, way, before) in self._growing.items():
            for name, one in regular_files(folder):
                if _file(one) not in before:
                    yield kind, way, name, one

    def _measured(self) -> dict[str, int]:
        names: Counter[_File] = Counter()
        files: dict[_File, tuple[str, os.stat_result]] = {}
        for kind, one in (
            *((entry.parent.name, one) for entry in self._made for _, one in regular_files(entry)),
            *((kind, one) for kind, _, _, one in self._grown()),
        ):
            names[_file(one)] += 1
            files.setdefault(_file(one), (kind, one))
        names.update(_file(one) for folder in self._temporary for _, one in regular_files(folder))
        sizes: Counter[str] = Counter()
        for file, (kind, one) in files.items():
            if kind == ENVIRONMENTS or names[file] == one.st_nlink:
                sizes[kind] += one.st_blocks * BLOCK
        return {kind: size for kind, size in sorted(sizes.items()) if size}


@contextmanager
def counted() -> Iterator[Usage]:
    """Count what this thread, and those that get its context, fetch and store while the block runs."""
    token = _ACTIVE.set(found := Usage())
    try:
        yield found
    finally:
        _ACTIVE.reset(token)


def current_usage() -> Usage:
    """Return the counts of the run that this thread works for; ones that nobody reads if there are none."""
    return _ACTIVE.get() or Usage()


def _file(status: os.stat_result) -> _File:
    return status.st_dev, status.st_ino
