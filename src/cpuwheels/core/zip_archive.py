"""Zip archives from outside, wheels above all, read as data: within limits, and as every other reader would read them.

Python's `zipfile` takes what others take differently or not at all: members that overlap or appear twice, a list that
contradicts the members, bytes between them, links. Here all of that is refused before anything is unpacked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cpuwheels.core.errors import UnsafeArchiveError
from cpuwheels.core.limits import TEXT, WHEEL
from cpuwheels.core.text import printable
from cpuwheels.core.units import format_size
from cpuwheels.core.zip_layout import LayoutFaultError, check_end, check_list, data_start, descriptor_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cpuwheels.core.limits import ArchiveLimits

_CHUNK = 1 << 20
_NEXT_STEP = "do not use it; get it again from where it is published"


@contextlib.contextmanager
def open_zip(
    file: Path | IO[bytes],
    *,
    limits: ArchiveLimits = WHEEL,
    where: str | Path = "",
    next_step: str = _NEXT_STEP,
    members_too: bool = True,
) -> Iterator[ZipReader]:
    """Yield a reader of an archive that was checked as far as that is possible without unpacking it.

    Args:
        file: A path, or a stream that can seek.
        limits: What it may hold.
        where: Where it is, for messages; the path, unless given.
        next_step: For messages.
        members_too: Whether each member's own header is compared with the list, and the bytes between members are
            checked. Without, only the end of the file is read, as is right for one on a server.

    Raises:
        UnsafeArchiveError: It is no zip archive, is damaged, holds what may not be unpacked, or is too large.
        OSError: It cannot be read.
    """
    place = str(where or (file if isinstance(file, Path) else getattr(file, "name", "")))
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(file.open("rb")) if isinstance(file, Path) else file
        yield ZipReader(stream, limits, members_too=members_too, where=place, next_step=next_step)


class ZipReader:
    """The members of an archive; made by `open_zip`. Every fault of the archive is an `UnsafeArchiveError`.

    Attributes:
        infos: What the archive's list has of each file, by its path, in the list's order; folders are left out.
    """

    def __init__(
        self, stream: IO[bytes], limits: ArchiveLimits, *, members_too: bool, where: str, next_step: str
    ) -> None:
        self._stream, self._where, self._next_step = stream, where, next_step
        self._starts: dict[str, int] = {}
        try:
            table = check_end(stream, limits)
            with zipfile.ZipFile(stream) as archive:
                listed = archive.infolist()
            self.infos: Mapping[str, zipfile.ZipInfo] = check_list(listed, table.members, limits)
            if members_too:
                self._check_layout(listed, table.start)
        except LayoutFaultError as fault:
            raise self._error(str(fault)) from fault
        # What zipfile makes of a list that is damaged.
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError) as fault:
            raise self._error(f"{type(fault).__name__}: {fault}") from fault

    @property
    def names(self) -> list[str]:
        """The paths of all files."""
        return list(self.infos)

    def read(self, name: str, most: int = TEXT) -> bytes:
        """Return a file's content, compared with its size and checksum.

        Args:
            name: Its path.
            most: Bytes that it may have.

        Raises:
            KeyError: There is no such file.
            UnsafeArchiveError: It is damaged, or has more bytes.
        """
        size = self.infos[name].file_size
        if size > most:
            raise self._error(f"{name} has {format_size(size)}, more than {format_size(most)}")
        return b"".join(self.chunks(name))

    def digest(self, name: str) -> bytes:
        """Return the sha256 of a file's content, without holding all of it.

        Raises:
            KeyError: There is no such file.
            UnsafeArchiveError: It is damaged.
        """
        digest = hashlib.sha256()
        for chunk in self.chunks(name):
            digest.update(chunk)
        return digest.digest()

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a file's content in pieces of at most a MiB; at the end its size and checksum are compared.

        Raises:
            KeyError: There is no such file.
            UnsafeArchiveError: It is damaged.
        """
        info = self.infos[name]
        size = checksum = 0
        for chunk in self._unpacked(info):
            size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
            if size > info.file_size:
                raise self._error(f"{name} has more than the {info.file_size} bytes of the archive's list")
            yield chunk
        if (size, checksum) != (info.file_size, info.CRC):
            raise self._error(f"{name} does not have the size and checksum of the archive's list")

    def extract(self, folder: Path, names: list[str] | None = None) -> None:
        """Unpack files into an empty folder.

        Args:
            folder: One that nobody else writes to.
            names: Paths of files; all, unless given.

        Raises:
            KeyError: There is no such file.
            UnsafeArchiveError: One is damaged; those before it are there.
        """
        # No path here is below another file's, and no member is a link, so folders are what `mkdir` made.
        for name in self.infos if names is None else names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            mode = 0o755 if self.infos[name].external_attr >> 16 & 0o100 else 0o644
            with os.fdopen(os.open(path, flags, mode), "wb") as target:
                target.writelines(self.chunks(name))

    def _unpacked(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        inflate = None if info.compress_type == zipfile.ZIP_STORED else zlib.decompressobj(-zlib.MAX_WBITS)
        for packed in self._packed(info):
            if inflate is None:
                yield packed
                continue
            pending = packed
            # What is left over of the output is given without more input, so an empty input may be a step, too.
            while True:
                try:
                    chunk = inflate.decompress(pending, _CHUNK)
                except zlib.error as error:
                    raise self._error(f"{info.filename} is damaged: {error}") from error
                pending = inflate.unconsumed_tail
                if chunk:
                    yield chunk
                if inflate.eof or (not pending and len(chunk) < _CHUNK):
                    break
            if inflate.unused_data:
                raise self._error(f"{info.filename} goes on behind its end")
        if inflate is not None and not inflate.eof:
            raise self._error(f"{info.filename} is cut off")

    def _packed(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        position = self._start(info)
        left = info.compress_size
        while left:
            self._stream.seek(position)
            packed = self._stream.read(min(_CHUNK, left))
            if not packed:
                raise self._error(f"{info.filename} is cut off")
            position, left = position + len(packed), left - len(packed)
            yield packed

    def _start(self, info: zipfile.ZipInfo) -> int:
        if info.filename not in self._starts:
            try:
                self._starts[info.filename] = data_start(self._stream, info)
            except LayoutFaultError as fault:
                raise self._error(str(fault)) from fault
        return self._starts[info.filename]

    def _check_layout(self, listed: list[zipfile.ZipInfo], table: int) -> None:
        """See that the members lie one behind the other, from the first byte to the archive's list."""
        end = 0
        for info in sorted(listed, key=lambda one: one.header_offset):
            if info.header_offset != end:
                raise LayoutFaultError(f"{info.filename} does not begin where the member before it ends")
            start = self._starts[info.filename] = data_start(self._stream, info)
            end = start + info.compress_size
            end += descriptor_size(self._stream, info, end)
        if end != table:
            raise LayoutFaultError("the last member does not end where the archive's list begins")

    def _error(self, fault: str) -> UnsafeArchiveError:
        name = printable(Path(self._where).name) or "the archive"
        return UnsafeArchiveError(
            f"{name} may not be used: {printable(fault)}", where=self._where, next_step=self._next_step
        )
