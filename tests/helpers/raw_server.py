"""A server on this machine that sends whatever bytes a test wants, as slowly as it wants, over TLS too."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable


class RawServer:
    """Answers each connection by a function that gets the request's first line and what to send with.

    Args:
        answer: Called with the path asked for and a function that sends bytes; it ends when the client hangs up.
        tls: Makes the server speak TLS.
    """

    def __init__(
        self, answer: Callable[[str, Callable[[bytes], None]], None], tls: ssl.SSLContext | None = None
    ) -> None:
        self._answer, self._tls = answer, tls
        self._ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(0.05)
        self._threads = [threading.Thread(target=self._accept)]
        self.asked: list[str] = []

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http{'s' if self._tls else ''}://{host}:{self._listening.getsockname()[1]}{path}"

    def _accept(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listening.accept()
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(5)
            stream = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
            with contextlib.suppress(OSError), stream:
                request = b""
                while b"\r\n\r\n" not in request and (more := stream.recv(4096)):
                    request += more
                path = request.split(b" ", 2)[1].decode() if b" " in request else ""
                self.asked.append(path)
                self._answer(path, lambda data: self._send(stream, data))

    def _send(self, stream: socket.socket, data: bytes) -> None:
        if self._ended.is_set():
            raise OSError("the test is over")
        stream.sendall(data)


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


def noting_server() -> RawServer:
    """Return a server that answers everything, to see what it is asked for."""
    return RawServer(lambda _, send: send(head("Content-Length: 1") + b"x"))


def drip(send: Callable[[bytes], None], data: bytes = b"x", pause: float = 0.05) -> None:
    """Send a few bytes now and again, until the client or the test has had enough."""
    while True:
        send(data)
        threading.Event().wait(pause)
