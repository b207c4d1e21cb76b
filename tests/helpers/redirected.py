"""A proxy on this machine that sends some hosts to other servers, so that a command need not be changed for a test."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from collections.abc import Iterator, Mapping

from running import Quiet, hand_on, running

HOST = "127.0.0.1"


@contextlib.contextmanager
def proxy(instead: Mapping[str, int]) -> Iterator[tuple[str, list[str]]]:
    """Run a proxy for as long as the block lasts; yield its address and the hosts that it was asked for.

    Args:
        instead: Host → port of this machine that it is sent to; every other host is reached as it is.
    """
    asked: list[str] = []

    class Handler(Quiet, http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            host, _, port = self.path.rpartition(":")
            asked.append(host)
            address = (HOST, instead[host]) if host in instead else (host, int(port))
            try:
                other = socket.create_connection(address, 30)
            except OSError as error:
                self.send_error(502, str(error))
                return
            with other:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=hand_on, args=(other, self.connection))
                back.start()
                hand_on(self.connection, other)
                back.join()
            self.close_connection = True

    server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    with running(server) as address:
        yield address, asked
