"""One ``.deb`` unpacked without dpkg and without trusting it: files and links only, nothing is run."""

from __future__ import annotations

import fnmatch
import io
import lzma
import os
import zlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from debian.arfile import ArError
from debian.debfile import DebFile

from cpuwheels.core.compat import tarfile
from cpuwheels.core.errors import ToolchainError, UnsafeArchiveError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

UNUSED = tuple(
    f"usr/share/{name}/*" for name in ("bug", "doc", "doc-base", "gdb", "info", "lintian", "locale", "man", "pixmaps")
)
"""What no compilation reads; a third of what a compiler's packages hold."""

_REFUSED_NEXT = "do not use this package; run `nox -s lock` against a mirror you trust"


def unpack_deb(package: Path, root: Path, leave_out: Sequence[str] = (), keep: Sequence[str] = ()) -> None:
    """Unpack a package's files over what ``root`` already holds.

    Owners, special permission bits and maintainer scripts are ignored. Absolute links become relative
    ones, so that they stay inside the root wherever it lies.

    Args:
        package: A ``.deb`` file.
        root: Folder that stands for ``/``.
        leave_out: Glob patterns of paths below the root, besides `UNUSED`.
        keep: Glob patterns of paths that are unpacked all the same.

    Raises:
        UnsafeArchiveError: A member would leave the root, or is a device.
        ToolchainError: It is not a whole Debian package.
    """
    patterns = (*UNUSED, *leave_out)
    try:
        with tarfile.open(fileobj=io.BytesIO(_data(package))) as tar:
            for member in tar:
                path = inner_path(member.name, package)
                if path.parts and (_matches(path, keep) or not _matches(path, patterns)):
                    tar.extract(placed(member, path, package), root, filter="data")
    except tarfile.FilterError as error:
        raise UnsafeArchiveError(
            f"{package.name} holds a member that may not be unpacked: {error}", where=package, next_step=_REFUSED_NEXT
        ) from error
    except (ArError, tarfile.TarError, lzma.LZMAError, EOFError, zlib.error) as error:
        raise _damaged(package, error) from error


def read_member(package: Path, name: str) -> bytes:
    """Return the content of one regular file in a package.

    Args:
        package: A ``.deb`` file.
        name: Path below the root.

    Raises:
        ToolchainError: It is not a whole Debian package, or has no such file.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(_data(package))) as tar:
            for member in tar:
                if member.isreg() and str(inner_path(member.name, package)) == name:
                    stream = tar.extractfile(member)
                    assert stream is not None  # noqa: S101  (a regular file has content)
                    return stream.read()
    except (ArError, tarfile.TarError, lzma.LZMAError, EOFError, zlib.error) as error:
        raise _damaged(package, error) from error
    raise ToolchainError(
        f"{package.name} has no {name}",
        where=package,
        next_step="see where this version of the package has it, and correct the name in the code",
    )


def _damaged(package: Path, error: Exception) -> ToolchainError:
    return ToolchainError(
        f"{package.name} is not a whole Debian package: {error}",
        where=package,
        next_step="remove it there, so that it is fetched again",
    )


def _data(package: Path) -> bytes:
    try:
        with DebFile(str(package)) as deb:
            name = next(name for name in deb.getnames() if name.startswith("data.tar"))
            return bytes(deb.getmember(name).read())
    except OSError as error:  # what python-debian also raises for a header that is cut off
        raise ArError(str(error)) from error


def inner_path(name: str, package: Path) -> PurePosixPath:
    """Return a member's path below the root.

    Raises:
        UnsafeArchiveError: It is absolute or goes upwards.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise UnsafeArchiveError(
            f"{package.name} holds a member outside the root: {name}", where=package, next_step=_REFUSED_NEXT
        )
    return path


def placed(member: tarfile.TarInfo, path: PurePosixPath, package: Path) -> tarfile.TarInfo:
    """Return a member as it is to be unpacked: by its inner path, absolute links made relative.

    Raises:
        UnsafeArchiveError: It is a device or a pipe, or a hard link to outside.
    """
    if member.isdev():
        raise UnsafeArchiveError(
            f"{package.name} holds a device or pipe: {member.name}", where=package, next_step=_REFUSED_NEXT
        )
    target = member.linkname
    if member.islnk():
        target = str(inner_path(target, package))
    elif member.issym() and target.startswith("/"):
        target = os.path.relpath(target.lstrip("/") or ".", path.parent)
    return member.replace(name=str(path), linkname=target, deep=False)


def _matches(path: PurePosixPath, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(str(path), pattern) for pattern in patterns)
