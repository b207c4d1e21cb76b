"""One ``.deb`` unpacked without dpkg and without trusting it: files and links only, nothing is run."""

from __future__ import annotations

import contextlib
import fnmatch
import io
import os
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING

from cpuwheels.core.compressed import DamagedError
from cpuwheels.core.errors import ToolchainError, UnsafeArchiveError
from cpuwheels.core.limits import DEBIAN_PACKAGE, TEXT
from cpuwheels.core.tar_archive import Place, UnsafeMemberError, content, members, unpack
from cpuwheels.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from typing_extensions import Buffer

    from cpuwheels.core.compat import tarfile
    from cpuwheels.core.limits import ArchiveLimits

UNUSED = tuple(
    f"usr/share/{name}/*" for name in ("bug", "doc", "doc-base", "gdb", "info", "lintian", "locale", "man", "pixmaps")
)
"""What no compilation reads; a third of what a compiler's packages hold."""

_AR = b"!<arch>\n"
_AR_HEADER = 60
_MOST_PARTS = 16
_REFUSED_NEXT = "do not use this package; run `nox -s lock` against a mirror you trust"


def unpack_deb(
    package: Path,
    root: Path,
    leave_out: Sequence[str] = (),
    keep: Sequence[str] = (),
    limits: ArchiveLimits = DEBIAN_PACKAGE,
) -> None:
    """Unpack a package's files over what ``root`` already holds.

    Owners, special permission bits and maintainer scripts are ignored. Absolute links become relative
    ones, so that they stay inside the root wherever it lies.

    Args:
        package: A ``.deb`` file.
        root: Folder that stands for ``/``.
        leave_out: Glob patterns of paths below the root, besides `UNUSED`.
        keep: Glob patterns of paths that are unpacked all the same.
        limits: What the package may hold.

    Raises:
        UnsafeArchiveError: A member would leave the root, or is a device, or there is more than ``limits`` allow.
        ToolchainError: It is not a whole Debian package.
    """
    patterns = (*UNUSED, *leave_out)

    def place(member: tarfile.TarInfo) -> Place | None:
        # A path that is absolute or goes upwards is refused, also where a pattern leaves it out.
        path = PurePosixPath(member.name)
        plain = not path.is_absolute() and ".." not in path.parts
        if plain and _matches(path, patterns) and not _matches(path, keep):
            return None
        link = member.linkname
        if member.issym() and link.startswith("/"):
            link = os.path.relpath(link.lstrip("/") or ".", path.parent)
        return Place(member.name, link)

    with _faults(package), package.open("rb") as stream:
        unpack(_data(stream), root, limits, place)


def read_member(package: Path, name: str, most: int = TEXT) -> bytes:
    """Return the content of one regular file in a package.

    Args:
        package: A ``.deb`` file.
        name: Path below the root.
        most: Bytes that it may have.

    Raises:
        UnsafeArchiveError: It has more, or the package is not one that would be unpacked.
        ToolchainError: It is not a whole Debian package, or has no such file.
    """
    with _faults(package), package.open("rb") as stream:
        for tar, member in members(_data(stream), DEBIAN_PACKAGE):
            if member.isreg() and str(PurePosixPath(member.name)) == name:
                if member.size > most:
                    raise UnsafeMemberError(f"{name} has {member.size} bytes; {most} are the limit")
                return b"".join(content(tar, member))
    raise ToolchainError(
        f"{package.name} has no {name}",
        where=package,
        next_step="see where this version of the package has it, and correct the name in the code",
    )


@contextlib.contextmanager
def _faults(package: Path) -> Iterator[None]:
    try:
        yield
    except UnsafeMemberError as fault:
        raise UnsafeArchiveError(
            f"{package.name} holds what may not be unpacked: {fault}", where=package, next_step=_REFUSED_NEXT
        ) from fault
    except DamagedError as fault:
        raise ToolchainError(
            f"{package.name} is not a whole Debian package: {fault}",
            where=package,
            next_step="remove it there, so that it is fetched again",
        ) from fault


def _data(package: IO[bytes]) -> IO[bytes]:
    """Return a package's archive of files: the third part, as deb(5) has it."""
    whole = package.seek(0, os.SEEK_END)
    package.seek(0)
    if package.read(len(_AR)) != _AR:
        raise DamagedError("it is no ar archive")
    parts: list[tuple[str, int, int]] = []
    while header := package.read(_AR_HEADER):
        name, size = header[:16].decode("ascii", "replace").rstrip(" /"), header[48:58].rstrip()
        if len(header) < _AR_HEADER or header[58:] != b"`\n" or not size.isdigit():
            raise DamagedError("a part has no proper header")
        start = package.tell()
        parts.append((name, start, int(size)))
        if start + int(size) > whole:
            raise DamagedError("it is cut off")
        package.seek(start + int(size) + int(size) % 2)
        if len(parts) > _MOST_PARTS:
            raise DamagedError(f"it has more than {_MOST_PARTS} parts")
    names = [printable(name) for name, _, _ in parts]
    if names[:1] != ["debian-binary"] or sum(name.startswith("data.tar") for name in names) != 1:
        raise DamagedError(f"its parts are {', '.join(names) or 'none'}")
    begin, length = next(part[1:] for part in parts if part[0].startswith("data.tar"))
    return io.BufferedReader(_Part(package, begin, begin + length), 1 << 18)


class _Part(io.RawIOBase):
    """A part of a file, which may be cut off."""

    def __init__(self, file: IO[bytes], start: int, end: int) -> None:
        self._file, self._start, self._end, self._position = file, start, end, start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: self._start, io.SEEK_CUR: self._position, io.SEEK_END: self._end}[whence]
        self._position = max(self._start, base + offset)
        return self._position - self._start

    def readinto(self, buffer: Buffer) -> int:
        with memoryview(buffer) as view:
            self._file.seek(self._position)
            found = self._file.read(min(len(view), max(0, self._end - self._position)))
            view[: len(found)] = found
        self._position += len(found)
        return len(found)


def _matches(path: PurePosixPath, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(str(path), pattern) for pattern in patterns)
