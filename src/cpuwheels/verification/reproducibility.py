"""Two wheels compared byte for byte, with the first difference of each member described so that it can be found."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from cpuwheels.core.digests import file_digest
from cpuwheels.core.elf import is_elf, sections
from cpuwheels.core.errors import WheelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_CHUNK = 1 << 20
ATTRIBUTES = ("date_time", "external_attr", "create_system", "compress_type", "flag_bits", "extra", "comment")
"""What an archive says of a member, but for its content, as `zipfile.ZipInfo` names it."""


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


def _open(wheel: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(wheel)
    except (OSError, zipfile.BadZipFile) as error:
        raise WheelError(f"{wheel.name} cannot be read: {error}", where=wheel) from error


def _contents(left: zipfile.ZipFile, right: zipfile.ZipFile) -> Iterator[Difference]:
    names, others = left.namelist(), right.namelist()
    for name in names:
        if name not in right.NameToInfo:
            yield Difference(name, "content", "only in the first wheel")
            continue
        one, two = left.getinfo(name), right.getinfo(name)
        if (one.CRC, one.file_size) != (two.CRC, two.file_size):
            yield _first_byte(left, right, name)
    for name in others:
        if name not in left.NameToInfo:
            yield Difference(name, "content", "only in the second wheel")


def _first_byte(left: zipfile.ZipFile, right: zipfile.ZipFile, name: str) -> Difference:
    sizes = left.getinfo(name).file_size, right.getinfo(name).file_size
    with left.open(name) as one, right.open(name) as two:
        offset = first_difference(one, two)
    with left.open(name) as stream:
        place = _section(stream, offset)
    return Difference(name, "content", f"first differing byte at {offset}{place}, sizes {sizes[0]} / {sizes[1]}")


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


def _attributes(left: zipfile.ZipFile, right: zipfile.ZipFile) -> Iterator[Difference]:
    for info in left.infolist():
        other = right.NameToInfo.get(info.filename)
        if other is None:
            continue
        for attribute in ATTRIBUTES:
            one, two = getattr(info, attribute), getattr(other, attribute)
            if one != two:
                yield Difference(info.filename, attribute, f"{one!r} / {two!r}")
    names, others = left.namelist(), right.namelist()
    if names != others and sorted(names) == sorted(others):
        yield Difference("", "order of members", _first_name(names, others))


def _first_name(names: Sequence[str], others: Sequence[str]) -> str:
    index, pair = next(
        (index, pair) for index, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1]
    )
    return f"member {index} is {pair[0]} / {pair[1]}"
