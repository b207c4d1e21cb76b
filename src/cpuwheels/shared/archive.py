"""Trees as objects: packed so that only names, contents and rights count, and unpacked as anything from outside is."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from typing import IO, TYPE_CHECKING

from cpuwheels.core.compressed import DamagedError
from cpuwheels.core.digests import digest_of_entries, entry_digest, tree_contents
from cpuwheels.core.limits import ArchiveLimits
from cpuwheels.core.sealed_entry import MANIFEST
from cpuwheels.core.tar_archive import UnsafeMemberError, unpack

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

SUFFIX = ".tar.gz"
LIMITS = ArchiveLimits(members=200_000, size=8 << 30, member=4 << 30)
"""Kernels of 0.33.0 have eight files and 90 MiB, without debug symbols; oneDNN's sources 12,000 files and 86 MiB."""

LARGEST = 4 << 30
"""Bytes of an object."""

_TIME = 315_532_800
"""1980-01-01, the earliest that a zip archive can have."""

LEVEL = 6


class RefusedTreeError(Exception):
    """A tree cannot be packed, or an object is no tree that was packed here; the message says why."""


def pack(folder: Path, names: Iterable[str], stream: IO[bytes], level: int = LEVEL) -> str:
    """Write some files of a folder as a compressed archive and return its sha256.

    Args:
        folder: The folder.
        names: Of its files, links and empty folders, relative POSIX paths.
        stream: Written to.
        level: Of compression, 0 to 9 (zlib).

    Raises:
        RefusedTreeError: One is neither file, link nor folder, or runs with its owner's rights.
    """
    digest = _Digesting(stream)
    with (
        gzip.GzipFile("", "wb", level, digest, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in names:
            path = folder / name
            member = tar.gettarinfo(path, name)
            if member is None or not (member.isreg() or member.issym() or member.isdir() or member.islnk()):
                raise RefusedTreeError(f"{name} is neither file, link nor folder")
            if member.mode & 0o6000:
                raise RefusedTreeError(f"{name} runs with its owner's rights")
            _plain(member)
            if member.isreg():
                with path.open("rb") as file:
                    member.size = os.fstat(file.fileno()).st_size
                    tar.addfile(member, file)
            else:
                tar.addfile(member)
    return digest.hexdigest()


def tree_names(folder: Path) -> list[str]:
    """Return what there is to pack of an entry or any other folder: all but an entry's manifest.

    Raises:
        RefusedTreeError: There is something else than files, links and folders.
    """
    contents = tree_contents(folder)
    if contents.others:
        raise RefusedTreeError(f"{contents.others[0]} is neither file, link nor folder")
    return sorted({*contents.files, *contents.empty_folders} - {MANIFEST})


def tree_id(folder: Path, without: Collection[str]) -> str:
    """Return one digest of a folder's files and empty folders.

    Args:
        folder: The folder.
        without: Names of files at its top that do not count; nor does an entry's manifest.
    """
    contents = tree_contents(folder)
    counted = [name for name in contents.files if name not in without and name != MANIFEST]
    digests = {name: entry_digest(folder / name) for name in counted}
    return digest_of_entries(digests | {f"{name}/": "folder" for name in contents.empty_folders})


def unpack_tree(stream: IO[bytes], folder: Path) -> None:
    """Unpack an object into a folder that is there.

    Raises:
        RefusedTreeError: It is damaged, or has what may not be unpacked.
        OSError: The folder cannot be written.
    """
    try:
        unpack(stream, folder, LIMITS)
    except (UnsafeMemberError, DamagedError) as error:
        raise RefusedTreeError(str(error)) from error


def _plain(member: tarfile.TarInfo) -> None:
    if member.islnk():  # the second name of a file; each is packed by itself
        member.type, member.linkname = tarfile.REGTYPE, ""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = _TIME
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644


class _Digesting:
    """A stream that is written to, and the sha256 of what was."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._digest = stream, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        return self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()

    def hexdigest(self) -> str:
        return self._digest.hexdigest()
