"""A web server for an index in a folder, for this machine alone: its files and nothing else of the machine.

Whoever runs code on this machine reaches it, and so does every page in a browser here. So it takes requests that are
addressed to this machine by name alone (a page elsewhere may resolve its own name to the loopback address), follows no
links, shows no hidden files, and gives each connection a time.
"""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import stat
import sys
import threading
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote, urlsplit

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import PublishError, StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOST = "127.0.0.1"
NAMES = frozenset({HOST, "localhost"})
"""Names under which it may be asked."""

REQUEST_SECONDS = 10.0
"""How long a request's head may take, and how long a client may take nothing of an answer."""

CONNECTIONS = 64
"""At once; package managers open up to 50."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".toml": "text/plain; charset=utf-8",
    ".whl": "application/zip",
}


def serve(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve a folder until interrupted.

    Args:
        folder: The index.
        port: 0 for any that is free.
        ready: Called with the address.

    Raises:
        PublishError: There is no index, or the port is taken.
        StoppedError: It was interrupted.
    """
    if not (folder / "index.json").is_file():
        raise PublishError(
            "there is no index",
            where=folder,
            next_step=f"publish a wheel into it first: {command_line('publish', '', 'WHEEL')}",
        )
    try:
        server = IndexServer(folder, port)
    except OSError as error:
        raise PublishError(
            f"port {port} cannot be used: {error.strerror}", where="--port", next_step="give another, or 0 for any"
        ) from error
    with server:
        try:
            ready(f"http://{HOST}:{server.server_address[1]}/")
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt as interrupt:
            raise StoppedError("the server has ended", next_step="") from interrupt


class IndexServer(http.server.ThreadingHTTPServer):
    """The server of a folder, on the loopback address.

    Args:
        folder: The index.
        port: 0 for any that is free.

    Raises:
        OSError: The port cannot be used.
    """

    daemon_threads = True
    request_queue_size = 2 * CONNECTIONS

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((HOST, port), _Handler)  # closes it all if that fails

    def server_close(self) -> None:
        """Close it."""
        super().server_close()
        os.close(self.folder)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Answer a connection in a thread, unless there are too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Answer a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Report an error, unless a client has closed the connection or waits: package managers do so on purpose."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # only printed


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "cpuwheels", ""
    timeout: ClassVar[float] = REQUEST_SECONDS  # of each read and write
    server: IndexServer

    def handle_one_request(self) -> None:
        """Read a request and answer it; the connection ends if its head is not there in time."""
        late = threading.Timer(REQUEST_SECONDS, self._end)
        late.daemon = True
        late.start()
        self._late = late
        try:
            super().handle_one_request()
        finally:
            late.cancel()

    def do_GET(self) -> None:
        """Answer with a file."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        """Answer with the headers of a file."""
        self._answer(with_content=False)

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def end_headers(self) -> None:
        """End the headers with those of every answer."""
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def _end(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, *, with_content: bool) -> None:
        self._late.cancel()
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self.send_error(HTTPStatus.BAD_REQUEST, "A request has no content here")
            return
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not _is_own(hosts[0]):
            self.close_connection = True
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server is for its own machine")
            return
        parts = _parts(self.path)
        if parts is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with self._opened(parts) as handle:
            if handle is None:
                self.send_error(HTTPStatus.NOT_FOUND)
            elif stat.S_ISDIR(os.fstat(handle).st_mode):
                self.send_response(HTTPStatus.MOVED_PERMANENTLY)
                self.send_header("Location", f"{self.path.partition('?')[0]}/")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._send(handle, PurePosixPath(parts[-1]).suffix, with_content=with_content)

    def _send(self, handle: int, suffix: str, *, with_content: bool) -> None:
        found = os.fstat(handle)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _TYPES.get(suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(found.st_size))
        self.send_header("Last-Modified", formatdate(found.st_mtime, usegmt=True))
        self.end_headers()
        if with_content:
            with open(handle, "rb", closefd=False) as stream:
                shutil.copyfileobj(stream, self.wfile, 1 << 16)

    @contextmanager
    def _opened(self, parts: list[str]) -> Iterator[int | None]:
        """Yield the descriptor of a file or folder; None if there is none. No link is followed."""
        handles = [self.server.folder]
        try:
            found = all(_open_next(part, handles) for part in parts)
            mode = os.fstat(handles[-1]).st_mode
            yield handles[-1] if found and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) else None
        finally:
            for handle in handles[1:]:
                os.close(handle)


def _open_next(part: str, handles: list[int]) -> bool:
    """Open what has a name in the last of some folders, and return whether it is there."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handles.append(os.open(part, flags, dir_fd=handles[-1]))
    except (OSError, ValueError):
        return False
    return True


def _is_own(host: str) -> bool:
    """Return whether a ``Host`` header names this machine by its loopback address."""
    try:
        return urlsplit(f"//{host}").hostname in NAMES
    except ValueError:
        return False


def _parts(target: str) -> list[str] | None:
    """Return the names of a request's path, that of a folder's page filled in; None if there can be no such file."""
    if not target.startswith("/"):  # the address of another server, for a proxy
        return None
    try:
        path = unquote(target.partition("?")[0], errors="strict")
    except ValueError:
        return None
    parts = path[1:].split("/")
    if not parts[-1]:
        parts[-1] = "index.html"
    if any(not part or part.startswith(".") or "\0" in part or "\\" in part for part in parts):
        return None
    return parts
