"""The canonical form of a wheel: same content, same bytes, whoever packed it and when."""

from __future__ import annotations

import contextlib
import csv
import io
import stat
import time
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING

from cpuwheels.core.errors import WheelError
from cpuwheels.core.filesystem import replacing, storage_errors
from cpuwheels.core.units import format_size
from cpuwheels.kernels.memory.limits import usable_cpus
from cpuwheels.wheel.deflate_cache import compress
from cpuwheels.wheel.dist_info import content_digest, dist_info_of, render_record

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from cpuwheels.wheel.deflate_cache import Stream, Streams

ZIP_EPOCH = 315532800
"""1980-01-01T00:00:00Z: zip archives know no earlier time (APPNOTE 4.4.6, MS-DOS date)."""

UNIX = 3
"""``create_system`` of every entry (APPNOTE 4.4.2), so that permissions are read as Unix modes."""

_MOST = 1 << 30
"""Bytes of an entry: it is compressed as a whole, and far below where zip64 begins."""


def zip_time(epoch: int) -> tuple[int, int, int, int, int, int]:
    """Return the UTC time stamp of zip entries: clamped to 1980, in steps of two seconds."""
    moment = time.gmtime(max(epoch, ZIP_EPOCH))
    return (moment.tm_year, moment.tm_mon, moment.tm_mday, moment.tm_hour, moment.tm_min, moment.tm_sec // 2 * 2)


def entry_order(name: str, dist_info: str) -> tuple[int, str]:
    """Return the sort key of an entry: package files, then ``.dist-info``, then its ``RECORD``."""
    if name == f"{dist_info}/RECORD":
        return (2, name)
    return (1 if name.startswith(f"{dist_info}/") else 0, name)


def canonicalize(
    wheel: Path,
    target: Path,
    *,
    epoch: int,
    add: Mapping[str, bytes] | None = None,
    leave_out: Collection[str] = (),
    instead: Path | None = None,
    streams: Streams | None = None,
    files: Mapping[str, Path] | None = None,
) -> None:
    """Rewrite a wheel: sorted entries, one time stamp, normal permissions, a new sorted ``RECORD``.

    Args:
        wheel: The wheel as some tool wrote it.
        target: Where the canonical wheel goes, in one rename; may be ``wheel`` itself.
        epoch: Seconds since 1970 of every entry (``SOURCE_DATE_EPOCH``).
        add: Name below ``.dist-info`` → content, to be added or replaced.
        leave_out: Names below ``.dist-info`` to drop.
        instead: Another wheel in canonical form. Its package files and ``WHEEL`` are added, or take the place of those
            in ``wheel``.
        streams: Entries that need not be compressed again.
        files: More package files, by their names in the wheel.

    Raises:
        WheelError: ``wheel`` is not a wheel, or one of its files is larger than 1 GiB.
        StoreError: ``target`` cannot be written.
    """
    try:
        with contextlib.ExitStack() as stack:
            members = _members(stack.enter_context(zipfile.ZipFile(wheel)))
            dist_info = dist_info_of(members)
            if instead is not None:
                members |= _instead(stack.enter_context(zipfile.ZipFile(instead)), dist_info)
            members |= {name: _Member(path=path) for name, path in (files or {}).items()}
            added = {f"{dist_info}/{name}": _Member(content=content) for name, content in (add or {}).items()}
            for name in (*leave_out, "RECORD"):
                members.pop(f"{dist_info}/{name}", None)
            with storage_errors(target.parent), replacing(target) as part:
                _rewrite(members | added, dist_info, part, zip_time(epoch), streams)
    except zipfile.BadZipFile as error:
        raise WheelError(f"{wheel.name} is not a wheel: {error}", where=wheel) from error


@dataclass(frozen=True)
class _Member:
    """A file of the wheel to be written: an entry of another one, a file, or bytes."""

    archive: zipfile.ZipFile | None = None
    info: zipfile.ZipInfo | None = None
    path: Path | None = None
    content: bytes = b""
    digest: str = ""
    """As ``RECORD`` says, if that is known without reading it."""

    @property
    def executable(self) -> bool:
        if self.path is not None:
            return bool(self.path.stat().st_mode & 0o111)
        return self.info is not None and bool(self.info.external_attr >> 16 & 0o111)

    @property
    def size(self) -> int:
        return len(self.content) if self.info is None else self.info.file_size

    def read(self) -> bytes:
        if self.path is not None:
            return self.path.read_bytes()
        return self.content if self.archive is None or self.info is None else self.archive.read(self.info)


def _members(archive: zipfile.ZipFile) -> dict[str, _Member]:
    return {info.filename: _Member(archive, info) for info in archive.infolist() if not info.is_dir()}


def _instead(archive: zipfile.ZipFile, dist_info: str) -> dict[str, _Member]:
    members = _members(archive)
    own = dist_info_of(members)
    rows = csv.reader(io.StringIO(members.pop(f"{own}/RECORD").read().decode()))
    digests = {row[0]: row[1] for row in rows}
    taken = {
        name: replace(member, digest=digests.get(name, ""))
        for name, member in members.items()
        if not name.startswith(f"{own}/")
    }
    return taken | {f"{dist_info}/WHEEL": members[f"{own}/WHEEL"]}


def _rewrite(
    members: Mapping[str, _Member],
    dist_info: str,
    part: IO[bytes],
    moment: tuple[int, int, int, int, int, int],
    streams: Streams | None,
) -> None:
    rows: list[tuple[str, str, str]] = []
    entries: list[tuple[zipfile.ZipInfo, Stream | Future[Stream]]] = []
    # libdeflate does not hold the interpreter's lock.
    with ThreadPoolExecutor(usable_cpus().count) as pool, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(members, key=lambda name: entry_order(name, dist_info)):
            member = members[name]
            stream = streams.find(member.digest, member.size) if streams is not None and member.digest else None
            if stream is not None:
                digest, size, content = member.digest, member.size, b""
            else:
                content = member.read()
                digest, size = content_digest(content), len(content)
                stream = streams.find(digest, size) if streams is not None else None
            rows.append((name, digest, str(size)))
            if size > _MOST:
                raise WheelError(
                    f"{name} has {format_size(size)}; {format_size(_MOST)} are the limit of a wheel's file"
                )
            entry = _entry(name, moment, size=size, executable=member.executable)
            entries.append((entry, stream or pool.submit(compress, content)))
        for entry, made in entries:
            _write(archive, entry, made.result() if isinstance(made, Future) else made)
        record = f"{dist_info}/RECORD"
        text = render_record([*sorted(rows), (record, "", "")])
        _write(archive, _entry(record, moment, size=len(text), executable=False), compress(text))


def _entry(name: str, moment: tuple[int, int, int, int, int, int], *, size: int, executable: bool) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, moment)
    entry.create_system = UNIX
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
    entry.file_size = size
    return entry


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, stream: Stream) -> None:
    """Write an entry that is compressed already: what `zipfile` does, but for the compressing."""
    assert archive.fp is not None  # noqa: S101  (it is open)
    entry.CRC, entry.compress_size = stream.crc, len(stream.data)
    archive.fp.seek(archive.start_dir)
    entry.header_offset = archive.start_dir
    archive.fp.write(entry.FileHeader(zip64=False))
    archive.fp.write(stream.data)
    archive.start_dir = archive.fp.tell()
    archive.filelist.append(entry)
    archive.NameToInfo[entry.filename] = entry
