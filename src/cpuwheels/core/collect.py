"""Files that an untrusted process left in a folder, taken over without believing anything about them.

The process may have left links, devices, endless files or thousands of them, and a child of it may still be writing.
So every folder and file is opened by its name below the one before it, never through a link, and what was opened is
asked what it is. Content is copied, up to a limit.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CHUNK = 1 << 20
_DEEPEST = 60
"""Folders in one another; vLLM's package has seven."""


@dataclass(frozen=True)
class Limits:
    """How much a process may leave.

    Attributes:
        files: How many files.
        size: Bytes of all of them.
    """

    files: int
    size: int


def collect_tree(folder: Path, target: Path, limits: Limits) -> list[str]:
    """Copy the regular files below a folder, and return their relative POSIX paths, sorted.

    Args:
        folder: Written by the untrusted process; made by this one.
        target: Where the copies go; made.
        limits: How much is taken over.

    Raises:
        ValueError: There is something else than folders and regular files, a name that is no plain text, or more than
            the limits allow.
        OSError: A copy cannot be written.
    """
    target.mkdir(parents=True)
    collector = _Collector(str(target), limits)
    handle = _open_folder(str(folder), None, folder.name)
    try:
        collector.take(handle, "", 0)
    finally:
        os.close(handle)
    return sorted(collector.names)


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a file that an untrusted process left.

    Args:
        path: The file; its folder was made by this process.
        most: Bytes that it may have.

    Raises:
        ValueError: It is not there, is not a regular file, or has more bytes.
    """
    handle = _open_file(str(path), None, path.name)
    try:
        content = b"".join(_chunks(handle, most, path.name))
    finally:
        os.close(handle)
    return content


class _Collector:
    """The files copied so far."""

    def __init__(self, target: str, limits: Limits) -> None:
        self.names: list[str] = []
        self._target, self._limits = target, limits
        self._left = limits.size

    def take(self, folder: int, below: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError(f"{below!a} is nested deeper than {_DEEPEST} folders")
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        for name in sorted(names):
            path = f"{below}{name}"
            if not name.isprintable() or not _is_unicode(name):
                raise ValueError(f"{path!a} is no plain name")
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                os.mkdir(f"{self._target}/{path}")  # noqa: PTH102  (thousands of files)
                inner = _open_folder(name, folder, path)
                try:
                    self.take(inner, f"{path}/", depth + 1)
                finally:
                    os.close(inner)
            elif stat.S_ISREG(mode):
                self._copy(name, folder, path)
            else:
                raise ValueError(f"{path} is {_what(mode)}, not a file")

    def _copy(self, name: str, folder: int, path: str) -> None:
        self.names.append(path)
        if len(self.names) > self._limits.files:
            raise ValueError(f"there are more than {self._limits.files} files")
        source = _open_file(name, folder, path)
        try:
            mode = 0o755 if os.fstat(source).st_mode & 0o100 else 0o644
            copy = os.open(f"{self._target}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                for chunk in _chunks(source, self._left, path):
                    self._left -= len(chunk)
                    _write(copy, chunk)
                os.fchmod(copy, mode)
            finally:
                os.close(copy)
        finally:
            os.close(source)


def _open_folder(name: str, folder: int | None, path: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        raise ValueError(f"{path} cannot be opened as a folder: {error.strerror}") from error


def _open_file(name: str, folder: int | None, path: str) -> int:
    # Without O_NONBLOCK, opening a pipe waits for ever.
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        raise ValueError(f"{path} cannot be opened as a file: {error.strerror}") from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise ValueError(f"{path} is {_what(mode)}, not a file")
    return handle


def _chunks(handle: int, most: int, path: str) -> Iterator[bytes]:
    if os.fstat(handle).st_size > most:  # a file with holes costs nothing to write
        raise ValueError(f"{path} is larger than what is taken over")
    while chunk := os.read(handle, _CHUNK):
        most -= len(chunk)
        if most < 0:
            raise ValueError(f"{path} is larger than what is taken over")
        yield chunk


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _what(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")
