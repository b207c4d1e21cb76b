"""Compressed files from outside as streams: gzip, bzip2 and xz, with bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from typing import IO, TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

_MEMORY = 256 << 20
"""Bytes that unpacking xz may take; xz's highest level takes 65 MiB, and a file can ask for 4 GiB."""

_CHUNK = 1 << 18


class DamagedError(Exception):
    """What is compressed, or an archive in it, is damaged."""


def unpacked_stream(stream: IO[bytes]) -> IO[bytes]:
    """Return a stream of what a file holds: unpacked, if its first bytes say that it is compressed.

    Reading it raises a `DamagedError` for whatever is wrong with the compression.
    """
    start = stream.read(6)
    stream.seek(-len(start), io.SEEK_CUR)
    if start.startswith(b"\x1f\x8b"):
        return _Checked(cast("io.RawIOBase", gzip.GzipFile(fileobj=stream, mode="rb")))
    if start.startswith(b"BZh"):
        return _Checked(_Streams(stream, bz2.BZ2Decompressor))
    if start == b"\xfd7zXZ\0":
        return _Checked(_Streams(stream, _xz))
    return stream


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY)


class _Checked(io.BufferedReader):
    """A stream whose faults are those of its content, not of the disk."""

    def __init__(self, stream: io.RawIOBase) -> None:
        super().__init__(stream, _CHUNK)

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            return super().read(size)
        except OSError as error:
            if error.errno is None:  # gzip and bz2 have no class of their own
                raise DamagedError(str(error)) from error
            raise
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise DamagedError(str(error)) from error


class _Streams(io.RawIOBase):
    """Compressed streams one behind the other, with zeros between them (xz 5.2, section 2.2)."""

    def __init__(self, packed: IO[bytes], make: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor]) -> None:
        self._packed, self._make = packed, make
        self._current = make()
        self._behind = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        with memoryview(buffer) as view:
            while True:
                if self._current.eof and not self._next():
                    return 0
                data = b""
                if self._current.needs_input:
                    data, self._behind = self._behind or self._packed.read(_CHUNK), b""
                    if not data:
                        raise EOFError("it is cut off")
                if found := self._current.decompress(data, len(view)):
                    view[: len(found)] = found
                    return len(found)

    def _next(self) -> bool:
        rest = self._current.unused_data
        while not (rest := rest.lstrip(b"\0")):
            if not (rest := self._packed.read(_CHUNK)):
                return False
        self._current, self._behind = self._make(), rest
        return True
