"""Zip archives byte by byte, for those that no writer would make."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER = struct.Struct("<4s5H3L2H")
LISTED = struct.Struct("<4s4B4H3L5H2L")
STREAMED, ENCRYPTED, UTF8 = 0x8, 0x1, 0x800


def deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(content) + packer.flush()


@dataclass(frozen=True)
class Member:
    """One member; what the list says of it can differ from what its own header says."""

    name: str
    content: bytes = b""
    packed: bytes | None = None
    method: int = 8
    flags: int = UTF8
    mode: int = 0o100644
    size: int | None = None
    crc: int | None = None
    listed: dict[str, int] = field(default_factory=dict)
    listed_name: str | None = None
    extra: bytes = b""
    listed_extra: bytes = b""
    descriptor: bytes = b""
    before: bytes = b""
    """Bytes before its header."""
    at: int | None = None
    """Where the list has it; nothing is written then."""

    def facts(self) -> tuple[bytes, int, int, int]:
        packed = self.packed
        if packed is None:
            packed = deflate(self.content) if self.method == 8 else self.content
        crc = zlib.crc32(self.content) if self.crc is None else self.crc
        return packed, crc, len(packed), len(self.content) if self.size is None else self.size


def write_zip(
    members: Sequence[Member],
    *,
    count: int | None = None,
    start: int | None = None,
    comment: bytes = b"",
    tail: bytes = b"",
) -> bytes:
    """Return an archive; the numbers in its end can be chosen."""
    data, table = bytearray(), bytearray()
    for member in members:
        packed, crc, packed_size, size = member.facts()
        name = member.name.encode(errors="surrogateescape")
        offset = len(data) + len(member.before) if member.at is None else member.at
        if member.at is None:
            shown = (0, 0, 0) if member.flags & STREAMED else (crc, packed_size, size)
            head = HEADER.pack(
                b"PK\3\4", 20, member.flags, member.method, 0, 0x21, *shown, len(name), len(member.extra)
            )
            data += member.before + head + name + member.extra + packed + member.descriptor
        facts = {"flags": member.flags, "method": member.method, "crc": crc, "packed": packed_size, "size": size}
        facts |= {"offset": offset} | member.listed
        title = name if member.listed_name is None else member.listed_name.encode()
        table += LISTED.pack(
            *(b"PK\1\2", 20, 3, 20, 0, facts["flags"], facts["method"], 0, 0x21),
            *(facts["crc"], facts["packed"], facts["size"], len(title), len(member.listed_extra), 0, 0, 0),
            *(member.mode << 16, facts["offset"]),
        )
        table += title + member.listed_extra
    number = len(members) if count is None else count
    where = len(data) if start is None else start
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, number, number, len(table), where, len(comment))
    return bytes(data + table + tail + end + comment)


def good(*names: str) -> list[Member]:
    return [Member(name, f"content of {name}\n".encode() * 9) for name in names]


def overlapping() -> bytes:
    """Many names for the same bytes: a bomb that no single member shows."""
    kernel = Member("a", b"\0" * 1_000_000)
    return write_zip([kernel, *(replace(kernel, name=f"b{number}", at=0) for number in range(20))])


def quoted() -> bytes:
    """A member whose bytes hold another member, which the list names as well."""
    inner = write_zip([Member("evil", b"evil")])[:-22]
    outer = Member("outer", inner, method=0)
    return write_zip([outer, Member("evil", b"evil", at=30 + len("outer"))])
