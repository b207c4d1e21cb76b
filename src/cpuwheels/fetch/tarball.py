"""Unpacking of source archives that come from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.compressed import DamagedError
from cpuwheels.core.errors import SourceError, UnsafeArchiveError
from cpuwheels.core.limits import SOURCE
from cpuwheels.core.tar_archive import Place, UnsafeMemberError, unpack

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.compat import tarfile
    from cpuwheels.core.limits import ArchiveLimits


def unpack_tar(archive: Path, folder: Path, limits: ArchiveLimits = SOURCE) -> int:
    """Unpack a source tarball into ``folder`` without its single top folder.

    Nothing may leave the folder: absolute paths, ``..``, links that lead outside and devices are refused, ownership
    and special permission bits are dropped.

    Returns:
        The newest modification time among the members, in seconds since the epoch.

    Raises:
        UnsafeArchiveError: A member may not be unpacked, or there is more than ``limits`` allow.
        SourceError: The archive is damaged, empty, or has more than one top folder.
    """
    top = _Top(archive)
    try:
        with archive.open("rb") as stream:
            newest = unpack(stream, folder, limits, top.place)
    except UnsafeMemberError as fault:
        raise UnsafeArchiveError(
            f"{archive.name} holds what may not be unpacked: {fault}",
            where=archive,
            next_step="do not use this archive; get the source from where vLLM publishes it",
        ) from fault
    except DamagedError as fault:
        raise SourceError(
            f"{archive.name} is not a whole source archive: {fault}", where=archive, next_step="fetch it again"
        ) from fault
    if not top.name:
        raise top.wrong()
    return newest


class _Top:
    """The single top folder of an archive, which its first member names."""

    def __init__(self, archive: Path) -> None:
        self.name = ""
        self._archive = archive

    def place(self, member: tarfile.TarInfo) -> Place | None:
        """Return a member's place without the top folder."""
        inner = self._without(member.name)
        # A hard link's target is a member name, so it loses the top folder as well.
        link = self._without(member.linkname) if member.islnk() else member.linkname
        return Place(inner, link) if inner else None

    def _without(self, path: str) -> str:
        path = path.removeprefix("./").rstrip("/")
        if path in {"", "."}:
            return ""
        top, _, inner = path.partition("/")
        if top in {"", ".."}:
            return path  # which is refused
        self.name = self.name or top
        if top != self.name:
            raise self.wrong()
        return inner

    def wrong(self) -> SourceError:
        """Return the error for an archive that has no single top folder."""
        return SourceError(
            f"{self._archive.name} does not have exactly one top folder, as an sdist must (PEP 625)",
            where=self._archive,
            next_step="give the sha256 of vLLM's sdist, not of another file",
        )
