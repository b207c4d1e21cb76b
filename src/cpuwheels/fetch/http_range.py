"""A file on a web server as a stream: only the parts that are read are fetched (RFC 9110, section 14)."""

from __future__ import annotations

import io
import re
from typing import IO, TYPE_CHECKING, cast

import httpx

from cpuwheels.core.errors import DownloadError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_WHOLE = re.compile(r"bytes \d+-\d+/(?P<size>\d+)")
_PARTIAL = 206
_TAIL = 1 << 20
"""Bytes of the end that are fetched at first: a wheel's table of contents and most of its ``.dist-info``."""

_CHUNK = 1 << 18


class NoRangesError(Exception):
    """The server hands out whole files only."""


def remote_file(url: str) -> IO[bytes]:
    """Return a stream of a file on a server, its end read already.

    Raises:
        NoRangesError: The server hands out whole files only.
        DownloadError: It does not answer, or there is no such file.
    """
    return cast("IO[bytes]", io.BufferedReader(_RemoteFile(url), _CHUNK))


class _RemoteFile(io.RawIOBase):
    def __init__(self, url: str) -> None:
        self._url = url
        # Ranges are of the bytes as they lie on the server.
        self._client = httpx.Client(follow_redirects=True, timeout=30, headers={"Accept-Encoding": "identity"})
        self._position = 0
        try:
            self._tail, self._size = self._get(f"-{_TAIL}")
        except BaseException:
            self._client.close()
            raise

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
            begins = self._size - len(self._tail)
            if self._position >= begins:
                data = self._tail[self._position - begins :][:wanted]
            else:
                data = self._get(f"{self._position}-{self._position + wanted - 1}")[0][:wanted]
            view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._client.close()
        super().close()

    def _get(self, part: str) -> tuple[bytes, int]:
        """Return a part of the file, and the size of the whole."""
        try:
            # Streamed, so that a server that sends the whole file can be distinguished from one that sends the part.
            with self._client.stream("GET", self._url, headers={"Range": f"bytes={part}"}) as answer:
                answer.raise_for_status()
                whole = _WHOLE.fullmatch(answer.headers.get("content-range", ""))
                if answer.status_code != _PARTIAL or whole is None:
                    raise NoRangesError
                return answer.read(), int(whole["size"])
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise DownloadError(
                f"cannot read the wheel: {type(error).__name__}: {error}",
                where=self._url,
                next_step="check the network, or the index",
            ) from error
