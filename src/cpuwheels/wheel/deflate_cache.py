"""Compressed entries of wheels: made by libdeflate, or copied from a finished wheel instead of being made again.

libdeflate looks for shorter encodings than zlib does, in about the same time, and comes with a package that is pinned:
the zlib of an interpreter is the machine's, and gives other bytes elsewhere.

Deflating a wheel's libraries takes longer than everything else that is done to it, and gives the same bytes each
time. A canonical wheel says in its ``RECORD`` which content each of its entries has, so the entries can be found
by digest and copied as they are. What a wheel holds in the end is read back and checked either way.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import io
import platform
import shutil
import struct
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Self

from deflate import deflate_compress

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.dist_info import dist_info_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.core.store import Store

KIND = "packed"

COMPRESSOR = "deflate"
"""The package with libdeflate."""

LEVEL = 10
"""Of every entry: the first that weighs encodings against one another. 12, the last, saves 0.2 % in twice the time."""

_KEPT = "wheel.zip"
_NAMED = "compressor.txt"
"""Names what compressed an entry's wheels."""

_LOCAL_HEADER = struct.Struct("<4s22sHH")  # APPNOTE 4.3.7: signature, fields, lengths of name and extra field
_LOCAL_SIGNATURE = b"PK\x03\x04"


def compressor_key() -> str:
    """Return a key of the compressor: another one gives other bytes for the same content and level."""
    text = b"".join(b"%d %d\n" % (number, number * number % 977) for number in range(20_000))
    sample = hashlib.sha256(deflate_compress(text, LEVEL)).hexdigest()
    version = importlib.metadata.version(COMPRESSOR)
    return make_key(libdeflate=version, machine=platform.machine(), level=LEVEL, sample=sample)


def compress(content: bytes) -> Stream:
    """Return the compressed entry of some content."""
    return Stream(zlib.crc32(content), len(content), bytes(deflate_compress(content, LEVEL)))


def name_compressor(folder: Path) -> None:
    """Write into an entry what compressed its wheels."""
    (folder / _NAMED).write_text(compressor_key(), encoding="ascii")


def latest_entry(store: Store, kind: str) -> Path | None:
    """Return the entry of a kind that was made last, unless another compressor made its wheels."""
    latest = store.latest(kind)
    named = latest and latest / _NAMED
    return latest if named and named.is_file() and named.read_text(encoding="ascii") == compressor_key() else None


def kept_wheel(store: Store, audited: str) -> Path | None:
    """Return the wheel that was kept with some audited binaries for its compressed files, if there is one."""
    folder = store.find(KIND, _key(audited))
    return None if folder is None else folder / _KEPT


def latest_wheel(store: Store) -> Path | None:
    """Return the wheel that was kept last, most of whose files another one is likely to have, if there is one."""
    latest = latest_entry(store, KIND)
    return latest and latest / _KEPT


def keep_wheel(store: Store, audited: str, wheel: Path) -> None:
    """Keep the first wheel that was made with some audited binaries, for those after it.

    Args:
        store: Where it is kept.
        audited: Key of the audited binaries, which names the compressor too.
        wheel: In canonical form.

    Raises:
        StoreError: The store cannot be written.
    """
    store.get(KIND, _key(audited), partial(_copy, wheel))


def _copy(wheel: Path, folder: Path) -> None:
    shutil.copyfile(wheel, folder / _KEPT)  # no second name: the wheel will be the user's
    name_compressor(folder)


def _key(audited: str) -> str:
    return make_key(layout=2, audited=audited)


@dataclass(frozen=True)
class Stream:
    """One compressed entry.

    Attributes:
        crc: CRC-32 of its content.
        size: Bytes of its content.
        data: The deflated bytes.
    """

    crc: int
    size: int
    data: bytes


@dataclass(frozen=True)
class _Place:
    file: IO[bytes]
    info: zipfile.ZipInfo


class Streams:
    """The compressed entries of some canonical wheels, by digest; a context that holds the files open.

    Args:
        wheels: In canonical form, made with the compressor of `compressor_key`.

    Raises:
        WheelError: One of them is not a wheel.
    """

    def __init__(self, wheels: Sequence[Path] = ()) -> None:
        self._archives: list[zipfile.ZipFile] = []
        self._places: dict[tuple[str, int], _Place] = {}
        for wheel in wheels:
            try:
                archive = zipfile.ZipFile(wheel)
                self._archives.append(archive)
                self._read(archive)
            except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
                self.close()
                raise WheelError(
                    f"{wheel.name} in the store is no wheel: {error}", where=wheel, next_step="remove it"
                ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the wheels."""
        for archive in self._archives:
            archive.close()

    def find(self, digest: str, size: int) -> Stream | None:
        """Return the entry with a content, if there is one.

        Args:
            digest: As ``RECORD`` writes it.
            size: Bytes of the content.
        """
        place = self._places.get((digest, size))
        if place is None:
            return None
        place.file.seek(place.info.header_offset)
        header = place.file.read(_LOCAL_HEADER.size)
        if len(header) != _LOCAL_HEADER.size:
            return None
        signature, _, name, extra = _LOCAL_HEADER.unpack(header)
        place.file.seek(name + extra, io.SEEK_CUR)
        data = place.file.read(place.info.compress_size)
        if signature != _LOCAL_SIGNATURE or len(data) != place.info.compress_size:
            return None
        return Stream(place.info.CRC, place.info.file_size, data)

    def _read(self, archive: zipfile.ZipFile) -> None:
        infos = {info.filename: info for info in archive.infolist()}
        record = archive.read(f"{dist_info_of(infos)}/RECORD").decode()
        for row in csv.reader(io.StringIO(record)):
            name, digest, size = row
            info = infos[name]
            if digest and info.compress_type == zipfile.ZIP_DEFLATED and archive.fp is not None:
                self._places.setdefault((digest, int(size)), _Place(archive.fp, info))
