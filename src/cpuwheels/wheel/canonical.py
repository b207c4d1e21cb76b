"""The canonical form of a wheel: same content, same bytes, whoever packed it and when."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import stat
import time
import zipfile
from typing import IO, TYPE_CHECKING

from cpuwheels.errors import WheelError
from cpuwheels.storage import replacing, storage_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

ZIP_EPOCH = 315532800
"""1980-01-01T00:00:00Z: zip archives know no earlier time (APPNOTE 4.4.6, MS-DOS date)."""

LEVEL = 9
"""Deflate level of every entry."""

UNIX = 3
"""``create_system`` of every entry (APPNOTE 4.4.2), so that permissions are read as Unix modes."""

_CHUNK = 1 << 20


def zip_time(epoch: int) -> tuple[int, int, int, int, int, int]:
    """Return the UTC time stamp of zip entries: clamped to 1980, in steps of two seconds."""
    moment = time.gmtime(max(epoch, ZIP_EPOCH))
    return (
        moment.tm_year,
        moment.tm_mon,
        moment.tm_mday,
        moment.tm_hour,
        moment.tm_min,
        moment.tm_sec // 2 * 2,
    )


def dist_info_of(names: Collection[str]) -> str:
    """Return the name of a wheel's ``.dist-info`` folder.

    Raises:
        WheelError: There is not exactly one.
    """
    found = sorted({name.partition("/")[0] for name in names if name.partition("/")[0].endswith(".dist-info")})
    if len(found) != 1:
        raise WheelError(f"a wheel has one .dist-info folder, this has {len(found)}", where=", ".join(found))
    return found[0]


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
) -> None:
    """Rewrite a wheel: sorted entries, one time stamp, normal permissions, a new sorted ``RECORD``.

    Args:
        wheel: The wheel as some tool wrote it.
        target: Where the canonical wheel goes, in one rename; may be ``wheel`` itself.
        epoch: Seconds since 1970 of every entry (``SOURCE_DATE_EPOCH``).
        add: Name below ``.dist-info`` → content, to be added or replaced.
        leave_out: Names below ``.dist-info`` to drop.

    Raises:
        WheelError: ``wheel`` is not a wheel.
        StoreError: ``target`` cannot be written.
    """
    try:
        with zipfile.ZipFile(wheel) as source, storage_errors(target.parent), replacing(target) as part:
            _rewrite(source, part, zip_time(epoch), dict(add or {}), leave_out)
    except zipfile.BadZipFile as error:
        raise WheelError(f"{wheel.name} is not a wheel: {error}", where=wheel) from error


def _rewrite(
    source: zipfile.ZipFile,
    part: IO[bytes],
    moment: tuple[int, int, int, int, int, int],
    add: dict[str, bytes],
    leave_out: Collection[str],
) -> None:
    infos = {info.filename: info for info in source.infolist() if not info.is_dir()}
    dist_info = dist_info_of(infos)
    added = {f"{dist_info}/{name}": content for name, content in add.items()}
    dropped = {f"{dist_info}/{name}" for name in (*leave_out, "RECORD")}
    names = sorted((infos.keys() | added.keys()) - dropped, key=lambda name: entry_order(name, dist_info))
    rows: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            with contextlib.ExitStack() as stack:
                content: IO[bytes]
                if name in added:
                    content, size, executable = io.BytesIO(added[name]), len(added[name]), False
                else:
                    content = stack.enter_context(source.open(infos[name]))
                    size, executable = infos[name].file_size, bool(infos[name].external_attr >> 16 & 0o111)
                entry = _entry(name, moment, size=size, executable=executable)
                rows.append((name, *_write(archive, entry, content)))
        record = f"{dist_info}/RECORD"
        text = render_record([*sorted(rows), (record, "", "")])
        _write(archive, _entry(record, moment, size=len(text), executable=False), io.BytesIO(text))


def render_record(rows: Collection[tuple[str, str, str]]) -> bytes:
    """Return a ``RECORD`` with these rows of path, digest and size."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def record_digest(digest: bytes) -> str:
    """Return a sha256 as ``RECORD`` writes it (binary distribution format: urlsafe base64, no padding)."""
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _entry(name: str, moment: tuple[int, int, int, int, int, int], *, size: int, executable: bool) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, moment)
    entry.create_system = UNIX
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
    entry.file_size = size  # decides on zip64 before the first byte is written
    # A streamed entry takes its level from here only; ZipFile's own level is not consulted for a ZipInfo.
    entry._compresslevel = LEVEL  # type: ignore[attr-defined]  # noqa: SLF001
    return entry


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, content: IO[bytes]) -> tuple[str, str]:
    digest, size = hashlib.sha256(), 0
    with archive.open(entry, "w") as stream:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            stream.write(chunk)
    return record_digest(digest.digest()), str(size)
