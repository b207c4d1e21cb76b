"""Two wheels compared byte for byte, with the first difference of each member described so that it can be found."""

from __future__ import annotations

import io
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from cpuwheels.core.digests import file_digest
from cpuwheels.core.elf import is_elf, sections
from cpuwheels.core.errors import UnsafeArchiveError, WheelError, reason
from cpuwheels.core.limits import WHEEL
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.verification.wheel_members import attribute_differences, member_pairs, order_difference

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.core.zip_archive import ZipReader

_CHUNK = 1 << 20
_READ = 1 << 30
"""Bytes of a member that is read to find where it differs; the largest library of vLLM's wheels has 80 MiB."""


@dataclass(frozen=True)
class Difference:
    """One difference between two wheels.

    Attributes:
        member: Path inside the wheel; empty for the archive as a whole.
        what: What differs, such as ``content`` or ``date_time``.
        detail: Both values, or where the first differing byte is.
    """

    member: str
    what: str
    detail: str

    def __str__(self) -> str:
        """Return the difference on one line."""
        return f"{self.member or 'archive'}: {self.what}: {self.detail}"


def compare_wheels(first: Path, second: Path) -> list[Difference]:
    """Return every difference between two wheels; an empty list means the same bytes and the same name.

    Members that differ come first, in archive order; then the archive's own properties.

    Raises:
        WheelError: One of them is not a wheel.
    """
    if first.name == second.name and file_digest(first) == file_digest(second):
        return []
    with _open(first) as left, _open(second) as right:
        found = [*_contents(left, right), *_attributes(left, right)]
    if first.name != second.name:
        found.append(Difference("", "file name", f"{first.name} / {second.name}"))
    if not found:
        found.append(Difference("", "compressed bytes", "same members, packed by other zlib or in another way"))
    return found


@contextmanager
def _open(wheel: Path) -> Iterator[ZipReader]:
    try:
        with open_zip(wheel, limits=WHEEL) as archive:
            yield archive
    except (OSError, UnsafeArchiveError) as error:
        raise WheelError(f"{wheel.name} cannot be read: {reason(error)}", where=wheel) from error


def _contents(left: ZipReader, right: ZipReader) -> Iterator[Difference]:
    for pair in member_pairs(left, right):
        if pair.second is None:
            yield Difference(pair.name, "content", "only in the first wheel")
        elif pair.first is None:
            yield Difference(pair.name, "content", "only in the second wheel")
        elif not pair.same:
            yield _first_byte(left.read(pair.name, _READ), right.read(pair.name, _READ), pair.name)


def _first_byte(one: bytes, two: bytes, name: str) -> Difference:
    offset = first_difference(io.BytesIO(one), io.BytesIO(two))
    place = _section(io.BytesIO(one), offset)
    return Difference(name, "content", f"first differing byte at {offset}{place}, sizes {len(one)} / {len(two)}")


def first_difference(one: IO[bytes], two: IO[bytes]) -> int:
    """Return the offset of the first byte in which two streams differ, or where the shorter one ends."""
    offset = 0
    while True:
        left, right = one.read(_CHUNK), two.read(_CHUNK)
        if left != right:
            same = next(
                (index for index, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None
            )
            return offset + (min(len(left), len(right)) if same is None else same)
        if not left:
            return offset
        offset += len(left)


def _section(stream: IO[bytes], offset: int) -> str:
    if not is_elf(stream):
        return ""
    names = [name for start, end, name in sections(io.BytesIO(stream.read())) if start <= offset < end]
    return f" in section {names[0]}" if names else " between sections"


def _attributes(left: ZipReader, right: ZipReader) -> Iterator[Difference]:
    for one in attribute_differences(left, right):
        yield Difference(one.name, one.attribute, f"{one.values[0]!r} / {one.values[1]!r}")
    if (order := order_difference(left, right)) is not None:
        yield Difference("", "order of members", f"member {order[0]} is {order[1]} / {order[2]}")
