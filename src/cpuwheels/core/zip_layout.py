"""The structures of a zip archive (APPNOTE 6.3): its end, its list, and the headers of its members."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from cpuwheels.core.archive_paths import PathFaultError, path_parts
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.core.limits import ArchiveLimits

_END, _LOCATOR, _END64, _HEADER = map(struct.Struct, ("<4s4H2LH", "<4sLQL", "<4sQ2H2L4Q", "<4s5H3L2H"))
_END64_REST = _END64.size - 12
"""What its size field counts: all behind that field."""

_ENCRYPTED = 0x1 | 0x40 | 0x2000
"""Flags of encrypted data, strong encryption, and masked headers."""

_PATCH, _STREAMED, _UTF8 = 0x20, 0x8, 0x800
_MOST_32 = 0xFFFFFFFF
_MOST = (0xFFFF, _MOST_32, _MOST_32)
"""What an archive's end has for its number of members, its list's size and place where zip64 has the true ones."""

_EXTRA_ZIP64, _EXTRA_UNICODE_PATH = 0x0001, 0x7075
_GREATEST_RATIO = 1032
"""What deflate saves at most: 258 bytes are two bits (zlib's technical details)."""


class LayoutFaultError(Exception):
    """What is wrong with an archive."""


@dataclass(frozen=True)
class Table:
    """The archive's list of members: where it begins, and how many there are."""

    start: int
    members: int


def check_end(stream: IO[bytes], limits: ArchiveLimits) -> Table:
    """Return where the archive's list lies, by the last bytes of the file.

    Raises:
        LayoutFaultError: It does not end as an archive without a comment does, or is too large.
    """
    size = stream.seek(0, os.SEEK_END)
    end = size - _END.size
    if end < 0:
        raise LayoutFaultError("it is no zip archive")
    signature, disk, table_disk, here, *facts, comment = _END.unpack(_bytes(stream, end, _END.size))
    if signature != b"PK\5\6" or comment:
        raise LayoutFaultError("it is no zip archive, is cut off, or something follows its end")
    if disk or table_disk or here != facts[0]:
        raise LayoutFaultError("it is one part of several")
    if long := _long_end(stream, end):
        end, true = long
        if any(short not in {known, top} for short, known, top in zip(facts, true, _MOST, strict=True)):
            raise LayoutFaultError("its zip64 record contradicts its end")
        facts = list(true)
    members, table_size, start = facts
    if members > limits.members or table_size > limits.table:
        raise LayoutFaultError(
            f"it has {members} members, listed in {format_size(table_size)}; {limits.members} in "
            f"{format_size(limits.table)} are the limit"
        )
    if start + table_size != end:
        raise LayoutFaultError("its list of members does not end where the archive does")
    return Table(start, members)


def _long_end(stream: IO[bytes], end: int) -> tuple[int, tuple[int, int, int]] | None:
    """Return where the zip64 record lies, and its numbers, if there is one before an archive's end."""
    place = end - _LOCATOR.size
    if place < 0 or (locator := _bytes(stream, place, _LOCATOR.size))[:4] != b"PK\6\7":
        return None
    place -= _END64.size
    if place < 0 or _LOCATOR.unpack(locator)[1:] != (0, place, 1):
        raise LayoutFaultError("its zip64 record is not where it should be")
    signature, rest, _, _, disk, table_disk, here, members, size, start = _END64.unpack(
        _bytes(stream, place, _END64.size)
    )
    if (signature, rest, disk, table_disk, here) != (b"PK\6\6", _END64_REST, 0, 0, members):
        raise LayoutFaultError("its zip64 record is damaged")
    return place, (members, size, start)


def check_list(listed: Sequence[zipfile.ZipInfo], members: int, limits: ArchiveLimits) -> dict[str, zipfile.ZipInfo]:
    """Return the files of an archive by their paths.

    Raises:
        LayoutFaultError: A member may not be unpacked or appears twice, or all together are too large.
    """
    if len(listed) != members:
        raise LayoutFaultError(f"it lists {len(listed)} members and claims {members}")
    files: dict[str, zipfile.ZipInfo] = {}
    folders: set[str] = set()
    total = 0
    for info in listed:
        name = info.filename
        parts = _parts(info, limits)
        if not info.is_dir():
            if name in files:
                raise LayoutFaultError(f"{name} is there twice")
            files[name] = info
            parts = parts[:-1]
        for depth in range(len(parts), 0, -1):
            folder = "/".join(parts[:depth])
            if folder in folders:
                break
            folders.add(folder)
        _check_member(info, limits)
        total += info.file_size
        if total > limits.size:
            raise LayoutFaultError(f"its files have more than {format_size(limits.size)}")
    if both := folders & files.keys():
        raise LayoutFaultError(f"{min(both)} is a file and a folder")
    return files


def _parts(info: zipfile.ZipInfo, limits: ArchiveLimits) -> tuple[str, ...]:
    name = info.orig_filename
    try:
        parts = path_parts(name, limits)
    except PathFaultError as fault:
        raise LayoutFaultError(str(fault)) from fault
    if name != info.filename or "\\" in name or "/".join(parts) != name.removesuffix("/") or not parts:
        raise LayoutFaultError(f"{name!r} is not a plain path")
    return parts


def _check_member(info: zipfile.ZipInfo, limits: ArchiveLimits) -> None:
    name = info.filename
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in ({0, stat.S_IFDIR} if info.is_dir() else {0, stat.S_IFREG}):
        raise LayoutFaultError(f"{name} is a link, a device or of another kind than its name")
    if info.external_attr >> 16 & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX):
        raise LayoutFaultError(f"{name} has special permission bits")
    if info.flag_bits & (_ENCRYPTED | _PATCH):
        raise LayoutFaultError(f"{name} is encrypted or a patch")
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise LayoutFaultError(f"{name} is compressed by method {info.compress_type}; wheels use deflate")
    if info.file_size > (0 if info.is_dir() else limits.member):
        raise LayoutFaultError(f"{name} has {format_size(info.file_size)}, more than {format_size(limits.member)}")
    stored = info.compress_type == zipfile.ZIP_STORED
    if stored and info.file_size != info.compress_size:
        raise LayoutFaultError(f"{name} is stored and has two sizes")
    if info.file_size > _GREATEST_RATIO * (info.compress_size + 1):
        raise LayoutFaultError(f"{name} claims {info.file_size} bytes, which {info.compress_size} cannot hold")
    _zip64_sizes(info.extra, name)


def data_start(stream: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Return where a member's bytes begin, after its own header was compared with the list.

    Raises:
        LayoutFaultError: They contradict one another.
    """
    raw = _bytes(stream, info.header_offset, _HEADER.size)
    signature, _, flags, method, _, _, checksum, packed, size, name_size, extra_size = _HEADER.unpack(raw)
    behind = _bytes(stream, info.header_offset + _HEADER.size, name_size + extra_size)
    name, extra = behind[:name_size], behind[name_size:]
    if signature != b"PK\3\4" or name != info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8 else "cp437"):
        raise LayoutFaultError(f"{info.filename} is not where the archive's list has it")
    long = _zip64_sizes(extra, info.filename)
    if size == _MOST_32 and packed == _MOST_32 and len(long) > 1:
        size, packed = long[:2]
    true = (info.CRC, info.compress_size, info.file_size)
    streamed = bool(flags & _STREAMED)
    pairs = zip((checksum, packed, size), true, strict=True)
    same = all(here == listed or (streamed and not here) for here, listed in pairs)
    mask = _ENCRYPTED | _STREAMED | _UTF8
    if not same or (flags & mask, method) != (info.flag_bits & mask, info.compress_type):
        raise LayoutFaultError(f"{info.filename} contradicts the archive's list")
    return info.header_offset + _HEADER.size + len(behind)


def descriptor_size(stream: IO[bytes], info: zipfile.ZipInfo, end: int) -> int:
    """Return the bytes of the data descriptor behind a member, 0 if it has none.

    Raises:
        LayoutFaultError: It should have one that agrees with the list.
    """
    if not info.flag_bits & _STREAMED:
        return 0
    true = (info.CRC, info.compress_size, info.file_size)
    expected = [struct.pack("<LQQ", *true)]
    if max(true) <= _MOST_32:
        expected.append(struct.pack("<LLL", *true))
    stream.seek(end)
    behind = stream.read(4 + len(expected[0]))
    for one in [b"PK\7\x08" + one for one in expected] + expected:
        if behind.startswith(one):
            return len(one)
    raise LayoutFaultError(f"{info.filename} has other sizes behind it than in the archive's list")


def _zip64_sizes(extra: bytes, name: str) -> tuple[int, ...]:
    """Return the numbers of a member's zip64 field, if it has one."""
    found: tuple[int, ...] = ()
    while len(extra) >= 4:  # noqa: PLR2004  (a field's head)
        kind, size = struct.unpack_from("<HH", extra)
        content, extra = extra[4 : 4 + size], extra[4 + size :]
        if len(content) < size or kind == _EXTRA_UNICODE_PATH or (kind == _EXTRA_ZIP64 and found):
            raise LayoutFaultError(f"{name} has an extra field that is damaged, twice there, or another name")
        if kind == _EXTRA_ZIP64:
            found = struct.unpack_from(f"<{size // 8}Q", content)
    return found


def _bytes(stream: IO[bytes], position: int, size: int) -> bytes:
    stream.seek(position)
    found = stream.read(size)
    if len(found) != size:
        raise LayoutFaultError("it is cut off")
    return found
