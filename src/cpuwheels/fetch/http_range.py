"""A file on a web server as a stream: only the parts that are read are fetched (RFC 9110, section 14)."""

from __future__ import annotations

import io
import re
from typing import IO, TYPE_CHECKING, cast

from cpuwheels.core.errors import DownloadError
from cpuwheels.core.limits import DOWNLOAD, FILE
from cpuwheels.fetch.http_stream import Head, HttpFaultError, http_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from cpuwheels.core.limits import Patience

_RANGE = re.compile(r"bytes (?P<first>\d{1,18})-(?P<last>\d{1,18})/(?P<size>\d{1,18})", re.ASCII)
_PARTIAL, _BAD_REQUEST = 206, 400
_TAIL = 1 << 20
"""Bytes of the end that are fetched at first: a wheel's table of contents and most of its ``.dist-info``."""

_CHUNK = 1 << 18


class NoRangesError(Exception):
    """The server hands out whole files only."""


def remote_file(url: str, patience: Patience = FILE) -> IO[bytes]:
    """Return a stream of a file on a server, its end read already.

    Args:
        url: The file.
        patience: How long the server is waited for, each time that it is asked.

    Raises:
        NoRangesError: The server hands out whole files only.
        DownloadError: It does not answer, or there is no such file.
    """
    return cast("IO[bytes]", io.BufferedReader(_RemoteFile(url, patience), _CHUNK))


class _RemoteFile(io.RawIOBase):
    def __init__(self, url: str, patience: Patience) -> None:
        self._url, self._patience = url, patience
        self._position = 0
        self._tail, self._size = self._get(f"-{_TAIL}", _TAIL)
        self._begins = self._size - len(self._tail)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        with memoryview(buffer) as view:
            wanted = min(len(view), self._size - self._position)
            if wanted <= 0:
                return 0
            if self._position >= self._begins:
                data = self._tail[self._position - self._begins :][:wanted]
            else:
                data = self._part(self._position, wanted)
            view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _part(self, first: int, size: int) -> bytes:
        data, whole = self._get(f"{first}-{first + size - 1}", size, first)
        if whole != self._size:
            raise self._error(f"it had {self._size} bytes, and now has {whole}")
        return data

    def _get(self, part: str, most: int, first: int | None = None) -> tuple[bytes, int]:
        """Return a part of the file, and the size of the whole.

        Args:
            part: As the header has it.
            most: Bytes that it has; fewer, if the file is shorter.
            first: Where it begins; None for the file's end.
        """
        try:
            # Streamed, so that a server that sends the whole file can be distinguished from one that sends the part.
            with http_answer(self._url, most=DOWNLOAD, headers={"Range": f"bytes={part}"}, patience=self._patience) as (
                head,
                content,
            ):
                return _read(head, content, most, first)
        except HttpFaultError as fault:
            raise self._error(str(fault)) from fault

    def _error(self, fault: str) -> DownloadError:
        return DownloadError(
            f"cannot read the wheel: {fault}", where=self._url, next_step="check the network, or the index"
        )


def _read(head: Head, content: Iterator[bytes], most: int, first: int | None) -> tuple[bytes, int]:
    if head.status >= _BAD_REQUEST:
        raise HttpFaultError(f"HTTP status {head.status}")
    found = _RANGE.fullmatch(head.headers.get("content-range", ""))
    if head.status != _PARTIAL or found is None:
        raise NoRangesError
    begins, ends, size = (int(found[name]) for name in ("first", "last", "size"))
    start = max(0, size - most) if first is None else first
    if (begins, ends) != (start, min(size, start + most) - 1):
        raise HttpFaultError(f"{found[0]} came, and other bytes were asked for")
    data = b""
    for piece in content:
        data += piece
        if len(data) > ends - begins + 1:
            break
    if len(data) != ends - begins + 1:
        raise HttpFaultError(f"{found[0]} are announced, and more or fewer came")
    return data, size
