"""The members of two wheels, paired by name: which differ, and what the archives say of them besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator

    from cpuwheels.core.zip_archive import ZipReader

ATTRIBUTES = ("date_time", "external_attr", "create_system", "compress_type", "flag_bits", "extra", "comment")
"""What an archive says of a member, but for its content, as `zipfile.ZipInfo` names it."""


@dataclass(frozen=True)
class Member:
    """A member as one wheel has it.

    Attributes:
        info: What the archive's list says.
        sha256: Digest of its content.
    """

    info: zipfile.ZipInfo
    sha256: str


@dataclass(frozen=True)
class MemberPair:
    """A member of one wheel or of both.

    Attributes:
        name: Its path.
        first: As the first wheel has it; None if it does not.
        second: As the second one has it; likewise.
    """

    name: str
    first: Member | None
    second: Member | None

    @property
    def same(self) -> bool:
        """Whether both have it with the same content."""
        return self.first is not None and self.second is not None and self.first.sha256 == self.second.sha256


@dataclass(frozen=True)
class AttributeDifference:
    """Something besides the content that two archives say differently of a member.

    Attributes:
        name: The member.
        attribute: One of `ATTRIBUTES`.
        values: What they say.
    """

    name: str
    attribute: str
    values: tuple[object, object]


def member_pairs(first: ZipReader, second: ZipReader) -> Iterator[MemberPair]:
    """Yield all members of two wheels: those of the first in its order, then those that only the second has.

    Raises:
        UnsafeArchiveError: A member is damaged.
    """
    for name in dict.fromkeys([*first.infos, *second.infos]):
        yield MemberPair(name, _member(name, first), _member(name, second))


def attribute_differences(first: ZipReader, second: ZipReader) -> Iterator[AttributeDifference]:
    """Yield what two wheels say differently of the members that both have."""
    for name, info in first.infos.items():
        other = second.infos.get(name)
        for attribute in ATTRIBUTES if other else ():
            values = getattr(info, attribute), getattr(other, attribute)
            if values[0] != values[1]:
                yield AttributeDifference(name, attribute, values)


def order_difference(first: ZipReader, second: ZipReader) -> tuple[int, str, str] | None:
    """Return the first place where two wheels have the same members in another order, with both names there.

    None if the order is the same, or the members are not.
    """
    if first.infos.keys() != second.infos.keys():
        return None
    pairs = enumerate(zip(first.infos, second.infos, strict=True))
    return next(((index, one, two) for index, (one, two) in pairs if one != two), None)


def _member(name: str, archive: ZipReader) -> Member | None:
    info = archive.infos.get(name)
    return None if info is None else Member(info, archive.digest(name).hex())
