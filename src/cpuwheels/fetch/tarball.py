"""Unpacking of source archives that come from outside."""

from __future__ import annotations

import gzip
import lzma
import zlib
from typing import TYPE_CHECKING

from cpuwheels.core.compat import tarfile
from cpuwheels.core.errors import SourceError, UnsafeArchiveError

if TYPE_CHECKING:
    from pathlib import Path


def unpack_tar(archive: Path, folder: Path) -> int:
    """Unpack a source tarball into ``folder`` without its single top folder.

    Nothing may leave the folder: absolute paths, ``..``, links that point outside and device files are
    refused (tarfile's ``data`` filter, PEP 706), ownership and special permission bits are dropped.

    Returns:
        The newest modification time among the members, in seconds since the epoch.

    Raises:
        UnsafeArchiveError: A member may not be unpacked.
        SourceError: The archive is damaged, empty, or has more than one top folder.
    """
    newest = 0
    try:
        with tarfile.open(archive, errorlevel=2) as tar:
            top = _single_top(tar, archive)
            for member in tar:
                name = member.name.removeprefix("./")
                if name == top:
                    continue
                tarfile.data_filter(member, str(folder))
                newest = max(newest, int(member.mtime))
                inner = name.removeprefix(f"{top}/")
                # A hard link's target is a member name, so it loses the top folder as well.
                target = member.linkname.removeprefix(f"{top}/") if member.islnk() else member.linkname
                renamed = member.replace(name=inner, linkname=target, deep=False)
                tar.extract(renamed, folder, filter="data")
    except tarfile.FilterError as error:
        raise UnsafeArchiveError(
            f"{archive.name} holds a member that may not be unpacked: {error}",
            where=archive,
            next_step="do not use this archive; get the source from where vLLM publishes it",
        ) from error
    # tarfile raises KeyError for a hard link to a member that is not there.
    except (tarfile.TarError, EOFError, KeyError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise SourceError(
            f"{archive.name} is not a whole source archive: {error}", where=archive, next_step="fetch it again"
        ) from error
    return newest


def _single_top(tar: tarfile.TarFile, archive: Path) -> str:
    tops = {member.name.removeprefix("./").split("/", 1)[0] for member in tar}
    unsafe = tops & {"", "..", "."}
    if len(tops - {"."}) != 1 or unsafe - {"."}:
        if unsafe:
            raise UnsafeArchiveError(
                f"{archive.name} holds a member with an absolute or outside path",
                where=archive,
                next_step="do not use this archive; get the source from where vLLM publishes it",
            )
        raise SourceError(
            f"{archive.name} does not have exactly one top folder, as an sdist must (PEP 625)",
            where=archive,
            next_step="give the sha256 of vLLM's sdist, not of another file",
        )
    return next(iter(tops - {"."}))
