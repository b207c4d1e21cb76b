"""One answer of a web server, taken in bounded time and size, whatever the server does.

httpx waits for each piece of an answer, so a server that sends a byte every few seconds is waited for without end. Here
a thread asks, and who reads takes what has come and gives up when it is too little.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.environ import use_true_clock
from cpuwheels.core.limits import FILE
from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo
from cpuwheels.core.usage import current_usage
from cpuwheels.fetch.requests import current

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    import httpx

    from cpuwheels.core.limits import Patience
    from cpuwheels.fetch.requests import Requests

_SECONDS, _CONNECT_SECONDS = 30, 15
_REDIRECTS = 10
_PIECES = 16
"""Pieces of an answer that may wait for the reader; each has at most 64 KiB."""

# Bytes are pinned, and ranges counted, as they lie on the server, which must not compress them for the transfer.
_HEADERS = {"Accept-Encoding": "identity"}
_DIRECT = {"all://127.0.0.1": None, "all://localhost": None}
"""Servers that no proxy reaches: those on this machine."""


class HttpFaultError(Exception):
    """What was wrong with an answer.

    Attributes:
        passing: Whether it may be gone on the next try.
        unreachable: Whether nothing answered at all, so that no other program here gets an answer either.
    """

    def __init__(self, fault: str, *, passing: bool = False, unreachable: bool = False) -> None:
        super().__init__(printable(without_userinfo(fault)))
        self.passing, self.unreachable = passing, unreachable


class TooLargeError(HttpFaultError):
    """More bytes came, or were announced, than the file may have."""


@dataclass(frozen=True)
class Head:
    """The beginning of an answer.

    Attributes:
        status: HTTP status; that of a redirect is never seen.
        url: Where it came from in the end.
        headers: Names in lower case.
    """

    status: int
    url: str
    headers: Mapping[str, str]


@contextlib.contextmanager
def http_answer(
    url: str, *, most: int, headers: Mapping[str, str] | None = None, patience: Patience = FILE
) -> Iterator[tuple[Head, Iterator[bytes]]]:
    """Yield the beginning of an answer to a GET, and its content in pieces, not decoded.

    Redirects are followed, except for ones from https to anything else.

    Args:
        url: ``http(s)``.
        most: Bytes that it may have; with more, reading ends with an error before they are fetched.
        headers: Of the request.
        patience: How long it is waited for.

    Raises:
        HttpFaultError: There is none, or, while reading, it is cut off, too slow or too large.
        LockedError: The run is locked, and the list of its downloads does not have the address.
    """
    if requests := current():
        requests.get(url)
    request = _Request(url, headers or {}, requests)
    try:
        head = request.head(patience)
        announced = head.headers.get("content-length", "0")
        if not (announced.isascii() and announced.isdigit()):
            raise HttpFaultError(f"it announces {announced!r} bytes")
        if int(announced[:20]) > most:
            raise TooLargeError(f"more than {most} bytes: {announced[:20]}")
        yield head, request.content(patience, most)
    finally:
        request.stop()


@functools.lru_cache(maxsize=2)
def _certificates(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """Return the certificates that are trusted, which take longer to read than a page; httpx knows these variables."""
    import httpx  # noqa: PLC0415  (as below)

    return httpx.create_ssl_context()


class _Request:
    """A request that a thread makes; it ends soon after `stop`, even if the server goes on."""

    def __init__(self, url: str, headers: Mapping[str, str], requests: Requests | None) -> None:
        self._url, self._headers, self._requests = url, headers, requests
        self._pieces: queue.Queue[Head | bytes | HttpFaultError | None] = queue.Queue(_PIECES)
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        # A daemon: a name server that does not answer cannot be interrupted, and must not hold up the program's end.
        threading.Thread(target=self._run, name="http", daemon=True).start()

    def head(self, patience: Patience) -> Head:
        """Wait for the beginning of the answer."""
        head = self._next(time.monotonic() + patience.answer, f"no answer in {patience.answer:g} s")
        assert isinstance(head, Head)  # noqa: S101  (the thread puts it first)
        return head

    def content(self, patience: Patience, most: int) -> Iterator[bytes]:
        """Yield the pieces of the answer."""
        usage, waited, slow_since = current_usage(), 0.0, 0.0
        size = fast = 0
        while True:
            began = time.monotonic()
            late = f"too slow: less than {patience.rate} bytes a second for {patience.window:g} s"
            left = patience.window - (waited - slow_since)
            if last := patience.whole - waited <= left:
                left, late = patience.whole - waited, f"not whole in {patience.whole:g} s"
            piece = self._next(began + left, late, passing=not last)
            if piece is None:
                return
            assert isinstance(piece, bytes)  # noqa: S101  (the head came before)
            usage.received(len(piece))
            waited += time.monotonic() - began
            size, fast = size + len(piece), fast + len(piece)
            if size > most:
                raise TooLargeError(f"more than {most} bytes")
            if fast >= patience.rate * patience.window:
                slow_since, fast = waited, 0
            yield piece

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it is closed
                self._socket.shutdown(socket.SHUT_RDWR)

    def _next(self, until: float, late: str, *, passing: bool = True) -> Head | bytes | None:
        try:
            found = self._pieces.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            raise HttpFaultError(late, passing=passing) from None
        if isinstance(found, HttpFaultError):
            raise found
        return found

    def _put(self, piece: Head | bytes | HttpFaultError | None) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._pieces.put(piece, timeout=0.2)
                return

    def _run(self) -> None:
        import httpx  # noqa: PLC0415  (slow to import, and often not needed)

        use_true_clock()  # this thread is there for one request
        try:
            timeout = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS)
            certificates = _certificates(*map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
            with (
                httpx.Client(timeout=timeout, headers=_HEADERS, verify=certificates, mounts=_DIRECT) as client,
                contextlib.closing(self._follow(client)) as answer,
            ):
                self._socket = answer.extensions["network_stream"].get_extra_info("socket")
                self._put(Head(answer.status_code, str(answer.url), dict(answer.headers)))
                for piece in answer.iter_raw():
                    self._put(piece)
                    if self._stopped.is_set():
                        return
            self._put(None)
        except HttpFaultError as fault:
            self._put(fault)
        except httpx.ConnectError as error:
            # No route or no such host does not pass within seconds; asking again would only delay the next mirror.
            # Each program has its own opinion of certificates.
            self._put(HttpFaultError(f"no connection: {error}", unreachable="ssl" not in str(error).lower()))
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError, ValueError) as error:
            self._put(HttpFaultError(f"not a URL: {error}"))
        except httpx.HTTPError as error:
            self._put(HttpFaultError(f"{type(error).__name__}: {error}", passing=True))
        except Exception as error:  # noqa: BLE001  (the reader waits for something)
            self._put(HttpFaultError(f"{type(error).__name__}: {error}"))

    def _follow(self, client: httpx.Client) -> httpx.Response:
        request = client.build_request("GET", self._url, headers=dict(self._headers))
        for _ in range(_REDIRECTS + 1):
            answer = client.send(request, stream=True)
            if answer.next_request is None:
                return answer
            answer.close()
            old, request = request.url, answer.next_request
            if request.url.scheme not in {"http", "https"} or (old.scheme, request.url.scheme) == ("https", "http"):
                raise HttpFaultError(f"a redirect from {old.scheme} to {request.url}")
            if self._requests and (fault := self._requests.redirected(str(request.url))):
                raise HttpFaultError(fault)
        raise HttpFaultError(f"more than {_REDIRECTS} redirects")
