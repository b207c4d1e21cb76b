"""A published wheel and a rebuilt one, compared member by member; the published one is read as data of a stranger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints

from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.core.limits import ArchiveLimits
from cpuwheels.core.models import Sha256, Strict
from cpuwheels.core.text import printable
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.rebuild.contents import Kind, difference_lines, kind_of
from cpuwheels.verification.reproducibility import ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.core.zip_archive import ZipReader

LIMITS = ArchiveLimits(members=50_000, size=2 << 30, member=1 << 30)
"""As for wheels that are published."""

_READ = 256 << 20
"""Bytes of a member whose contents are compared; the largest library of vLLM's wheels has 80 MiB."""
_KEPT = 200
"""Members in a report."""

Name = Annotated[str, StringConstraints(max_length=1100)]


class MemberDifference(Strict):
    """One member that is not the same in both wheels."""

    member: Name
    """Path in the wheel; empty for the archive as a whole."""
    where: Literal["both", "published", "rebuilt"]
    """Which wheels have it."""
    kind: Kind | Literal["archive"]
    """What it was compared as."""
    sizes: tuple[int, ...] = ()
    """Bytes in the published and the rebuilt one, as far as they have it."""
    digests: tuple[Sha256, ...] = ()
    """SHA-256 likewise."""
    lines: tuple[str, ...] = Field(default=(), max_length=200)
    """What differs, for people."""


class Compared(Strict):
    """All that differs between two wheels."""

    count: int = Field(default=0, ge=0)
    """Members that differ."""
    same: int = Field(default=0, ge=0)
    """Members that are the same."""
    differences: tuple[MemberDifference, ...] = Field(default=(), max_length=_KEPT)
    """The first of them."""


def compare_members(published: Path, rebuilt: Path) -> Compared:
    """Return what differs between two wheels that do not have the same bytes.

    Args:
        published: The published one.
        rebuilt: The one that was built again.

    Raises:
        UnsafeArchiveError: One is no archive that may be read.
        OSError: One cannot be read.
    """
    with open_zip(published, limits=LIMITS) as left, open_zip(rebuilt, limits=LIMITS) as right:
        names = list(dict.fromkeys([*left.infos, *right.infos]))
        found = [one for name in names if (one := _member(name, left, right))]
        archive = list(_archive(published, rebuilt, left, right))
        if archive or not found:
            lines = archive or ["the same members, packed by another zlib or in another way"]
            found.append(MemberDifference(member="", where="both", kind="archive", lines=tuple(lines[:_KEPT])))
    members = sum(bool(one.member) for one in found)
    return Compared(count=len(found), same=len(names) - members, differences=tuple(found[:_KEPT]))


def _member(name: str, left: ZipReader, right: ZipReader) -> MemberDifference | None:
    shown = printable(name)
    for where, archive, other in (("published", left, right), ("rebuilt", right, left)):
        if name in archive.infos and name not in other.infos:
            size, digest = archive.infos[name].file_size, archive.digest(name).hex()
            return MemberDifference(member=shown, where=where, kind="bytes", sizes=(size,), digests=(digest,))  # type: ignore[arg-type]
    one, other_one = left.infos[name], right.infos[name]
    digests = (left.digest(name).hex(), right.digest(name).hex())
    if digests[0] == digests[1]:
        return None
    sizes = (one.file_size, other_one.file_size)
    kind: Kind = "bytes"
    lines = ["too large to be compared in detail"]
    if max(sizes) <= _READ:
        contents = left.read(name, _READ), right.read(name, _READ)
        kind = kind_of(name, *contents)
        lines = difference_lines(kind, *contents)
    return MemberDifference(
        member=shown, where="both", kind=kind, sizes=sizes, digests=digests, lines=tuple(lines[:_KEPT])
    )


def _archive(published: Path, rebuilt: Path, left: ZipReader, right: ZipReader) -> Iterator[str]:
    """Yield what differs of the archives as such."""
    if published.name != rebuilt.name:
        yield printable(f"file name: {published.name} → {rebuilt.name}")
    if list(left.infos) != list(right.infos) and left.infos.keys() == right.infos.keys():
        yield "the members are in another order"
    for name, info in left.infos.items():
        other = right.infos.get(name)
        for attribute in ATTRIBUTES if other else ():
            one, two = getattr(info, attribute), getattr(other, attribute)
            if one != two:
                yield printable(f"{name}: {attribute}: {one!r:.60} → {two!r:.60}")


def fault_of(error: CpuwheelsError | OSError) -> Compared:
    """Return what is told of wheels that cannot be compared by their members.

    Args:
        error: Why.
    """
    why = error.what if isinstance(error, CpuwheelsError) else str(error.strerror or error)
    line = MemberDifference(member="", where="both", kind="archive", lines=(printable(why),))
    return Compared(count=1, differences=(line,))
