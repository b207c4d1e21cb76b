"""A server of this machine that runs in a thread for as long as a test needs it, and what such servers share."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socketserver
    from collections.abc import Iterator


class Quiet:
    """Has a handler of requests say nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def running(server: socketserver.BaseServer) -> Iterator[str]:
    """Run a server, and yield its address, which is a URL if it listens on a port."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        place = server.server_address
        yield f"http://127.0.0.1:{place[1]}" if isinstance(place, tuple) else str(place)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hand_on(source: socket.socket, target: socket.socket) -> None:
    """Hand on what one side of a connection says until it ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
