"""Tar archives from outside, unpacked within limits and by descriptors of folders: no link is followed on the way.

tarfile's own filter (PEP 706) compares paths, and can be deceived by links where Python lacks the correction of
CVE-2025-4517. Here every folder is opened below its parent, and a link is looked at only after all are there.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import stat
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Self

from cpuwheels.core.archive_paths import PathFaultError, path_parts
from cpuwheels.core.compat import tarfile
from cpuwheels.core.compressed import DamagedError, unpacked_stream
from cpuwheels.core.links import link_fault
from cpuwheels.core.text import printable
from cpuwheels.core.tree_faults import RESERVED
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cpuwheels.core.limits import ArchiveLimits

_HEADER_BYTES = 1 << 20
"""Of what tarfile reads at once, such as a long name: all but a header's own 512 bytes."""

_OVERHEAD = 4096
"""Bytes of a member besides its content: headers and padding, with a long name."""

_CHUNK = 1 << 18
_LATEST = 1 << 32
"""Seconds since the epoch, in 2106: what a zip archive and most file systems can still have."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeMemberError(Exception):
    """A member may not be unpacked, or there are more than the limits allow; the message names it."""


@dataclass(frozen=True)
class Place:
    """Where a member goes.

    Attributes:
        path: Below the folder.
        link: A link's target: of a symbolic link as it will be read there, of a hard link a path below the folder.
    """

    path: str
    link: str = ""


def as_named(member: tarfile.TarInfo) -> Place | None:
    """Return the place of a member that keeps its name."""
    return Place(member.name, member.linkname)


def unpack(
    archive: IO[bytes], folder: Path, limits: ArchiveLimits, place: Callable[[tarfile.TarInfo], Place | None] = as_named
) -> int:
    """Unpack an archive, compressed or not, into a folder.

    Owners and special permission bits are dropped. What is there under the same name is replaced, except for folders.

    Args:
        archive: Can seek, if it is not compressed.
        folder: Nobody else writes to it meanwhile.
        limits: What the archive may hold.
        place: Returns where a member goes, or None to leave it out.

    Returns:
        The newest modification time among the members, in seconds since the epoch.

    Raises:
        UnsafeMemberError: A member may not be unpacked: outside paths, links that lead out, devices, too much of it.
        DamagedError: It is not a whole archive.
        OSError: The folder cannot be written.
    """
    newest = 0
    folder.mkdir(parents=True, exist_ok=True)
    with _Target(folder, limits) as target:
        for tar, member in members(archive, limits):
            newest = max(newest, _moment(member))
            where = place(member)
            if where is not None and (parts := _parts(where.path, limits)):
                target.add(tar, member, parts, where.link)
        target.make_links()
    return newest


def members(archive: IO[bytes], limits: ArchiveLimits) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the members of an archive in order, each with the archive, which is read no further until the next.

    Raises:
        UnsafeMemberError: There are more, or larger ones, than the limits allow.
        DamagedError: It is not a whole archive.
    """
    stream = _Forward(unpacked_stream(archive), limits.size + limits.members * _OVERHEAD)
    with _tar_errors():
        tar = tarfile.open(fileobj=stream, mode="r:", errorlevel=2)
    count = size = 0
    while True:
        with _tar_errors():
            member = tar.next()
        if member is None:
            stream.check_end()
            return
        tar.members.clear()  # type: ignore[attr-defined]  # a million of them would fill the memory
        count += 1
        size += max(0, member.size)
        if count > limits.members:
            raise UnsafeMemberError(f"more than {limits.members} members")
        if not 0 <= member.size <= limits.member or size > limits.size:
            raise UnsafeMemberError(
                f"{printable(member.name)[:200]} has {member.size} bytes; {format_size(limits.member)} each and "
                f"{format_size(limits.size)} together are the limit"
            )
        yield tar, member


def content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    """Yield the content of a member that was just reached, in pieces.

    Raises:
        DamagedError: It is cut off.
    """
    with _tar_errors():
        stream = tar.extractfile(member)
    left = member.size
    while stream is not None and left:
        with _tar_errors():
            chunk = stream.read(min(_CHUNK, left))
        if not chunk:
            raise DamagedError("unexpected end of data")
        left -= len(chunk)
        yield chunk


@contextlib.contextmanager
def _tar_errors() -> Iterator[None]:
    try:
        yield
    # What tarfile makes of damaged headers, and of hundreds of them within one another.
    except (tarfile.TarError, ValueError, OverflowError, KeyError, IndexError, RecursionError) as error:
        raise DamagedError(printable(str(error)) or type(error).__name__) from error


class _Forward(io.RawIOBase):
    """A stream that is read once, of which no more is taken at once, and in all, than there should be."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._most, self._position = stream, most, 0
        self._last = b""

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _HEADER_BYTES:
            raise UnsafeMemberError(f"a header of {size} bytes")
        found = self._last = self._stream.read(size)
        self._position += len(found)
        if self._position > self._most:
            raise UnsafeMemberError(f"more than {format_size(self._most)} in all")
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or offset < self._position:
            raise tarfile.ReadError("a member that lies before another one")
        while (left := offset - self._position) and self.read(min(left, _CHUNK)):
            pass
        return self._position

    def check_end(self) -> None:
        """See that the archive ends as it should: tarfile also takes a header that it cannot read for the end."""
        if self._last.count(0) != tarfile.BLOCKSIZE:
            raise DamagedError("it does not end as an archive does")
        if self._stream.read(_HEADER_BYTES + 1).strip(b"\0"):  # a checksum comes last
            raise DamagedError("something follows its end")
        if self._stream.read(1):
            raise UnsafeMemberError("it goes on behind its end")


def _step(above: int, part: str, shown: str, *, make: bool) -> int:
    """Return a descriptor of a folder in another one, which is closed."""
    try:
        try:
            handle = os.open(part, _FOLDER, dir_fd=above)
        except FileNotFoundError:
            if not make:
                raise
            os.mkdir(part, 0o755, dir_fd=above)
            handle = os.open(part, _FOLDER, dir_fd=above)
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            raise UnsafeMemberError(f"{shown} is a link or a file, and a member lies below it") from error
        raise
    os.close(above)
    return handle


def _parts(path: str, limits: ArchiveLimits) -> tuple[str, ...]:
    try:
        parts = path_parts(path, limits)
    except PathFaultError as fault:
        raise UnsafeMemberError(str(fault)) from fault
    if any(part.lower().startswith(RESERVED) for part in parts):
        raise UnsafeMemberError(f"{'/'.join(parts)} has a name of this program's own files")
    return parts


def _moment(member: tarfile.TarInfo) -> int:
    if not math.isfinite(member.mtime) or not 0 <= member.mtime < _LATEST:
        raise UnsafeMemberError(f"{printable(member.name)[:200]} is of the time {member.mtime}")
    return int(member.mtime)


class _Target:
    """The folder that is unpacked into; the folder of the last member stays open."""

    def __init__(self, folder: Path, limits: ArchiveLimits) -> None:
        self._folder, self._limits = folder, limits
        self._links: dict[tuple[str, ...], str] = {}
        self._linked = 0
        self._root = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)
        self._last: tuple[tuple[str, ...], int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()
        os.close(self._root)

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...], link: str) -> None:
        """Unpack one member."""
        shown = "/".join(parts)
        if member.isdir():
            self._open(parts)
        elif member.issparse():
            raise UnsafeMemberError(f"{shown} is sparse: it may unpack to any size")
        elif member.isreg():
            self._write(tar, member, parts)
        elif member.issym():
            self._link(parts, link)
        elif member.islnk():
            self._second_name(parts, _parts(link, self._limits))
        else:
            raise UnsafeMemberError(f"{shown} is a device, a pipe or of an unknown kind")

    def make_links(self) -> None:
        """Make the symbolic links, last of all; none of them if one leads outside."""
        links = dict(self._links)
        for parts in links:
            if fault := link_fault(self._folder, parts, links):
                raise UnsafeMemberError(fault)
        for parts, target in links.items():
            os.symlink(target, parts[-1], dir_fd=self._room(parts))

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
        above = self._room(parts)
        # As tarfile's data filter has it: readable, and executable if it is so for its owner.
        mode = (member.mode & 0o755 if member.mode & 0o100 else member.mode & 0o644) | 0o600
        with os.fdopen(os.open(parts[-1], _NEW_FILE, 0o600, dir_fd=above), "wb") as file:
            file.writelines(content(tar, member))
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.utime(file.fileno(), (member.mtime, member.mtime))

    def _link(self, parts: tuple[str, ...], target: str) -> None:
        shown = printable(target)
        if not target or target.startswith("/") or shown != target or len(target.encode()) > self._limits.path:
            raise UnsafeMemberError(f"{'/'.join(parts)} is a link to {shown[:200]!r}")
        self._links[parts] = target

    def _second_name(self, parts: tuple[str, ...], target: tuple[str, ...]) -> None:
        shown = f"{'/'.join(parts)} is a hard link to {'/'.join(target)}"
        try:
            source = self._open(target[:-1], make=False)
            status = os.stat(target[-1], dir_fd=source, follow_symlinks=False)
        except (FileNotFoundError, IndexError) as error:
            raise DamagedError(f"{shown}, which is not there") from error
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeMemberError(f"{shown}, which is no file")
        self._linked += status.st_size
        if self._linked > self._limits.size:
            raise UnsafeMemberError(f"hard links to more than {format_size(self._limits.size)}")
        if parts == target:
            return
        source = os.dup(source)
        try:
            above = self._room(parts)
            os.link(target[-1], parts[-1], src_dir_fd=source, dst_dir_fd=above, follow_symlinks=False)
        finally:
            os.close(source)

    def _room(self, parts: tuple[str, ...]) -> int:
        """Return a descriptor of the folder of a new file or link, after what had its name was removed."""
        above = self._open(parts[:-1])
        self._links.pop(parts, None)
        try:
            os.unlink(parts[-1], dir_fd=above)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError) as error:  # the second is what macOS says of a folder
            raise UnsafeMemberError(f"{'/'.join(parts)} is a folder already") from error
        return above

    def _open(self, parts: tuple[str, ...], *, make: bool = True) -> int:
        """Return a descriptor of a folder, valid until the next call."""
        if self._last is not None and self._last[0] == parts:
            return self._last[1]
        handle = os.dup(self._root)
        try:
            for depth, part in enumerate(parts, 1):
                handle = _step(handle, part, "/".join(parts[:depth]), make=make)
        except BaseException:
            os.close(handle)
            raise
        self._forget()
        self._last = parts, handle
        return handle

    def _forget(self) -> None:
        if self._last is not None:
            os.close(self._last[1])
            self._last = None
