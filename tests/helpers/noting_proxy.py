"""A proxy that notes every request, on a socket of the file system: it also serves a network that has nothing else."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from running import hand_on, running

_SECONDS = 60


@dataclass
class Noted:
    """What a proxy was asked for.

    Attributes:
        socket: Where it listens.
        asked: ``CONNECT host:port`` and ``GET http://…``, in order.
    """

    socket: Path
    asked: list[str] = field(default_factory=list)


@contextlib.contextmanager
def noting_proxy(folder: Path) -> Iterator[Noted]:
    """Run a proxy for as long as the block lasts; what is asked for is reached as it is."""
    noted = Noted(folder / "proxy")

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode("latin-1").strip()
            head = b""
            while (more := self.rfile.readline()) not in {b"\r\n", b""}:
                if not more.lower().startswith((b"proxy-", b"connection:")):
                    head += more
            method, _, rest = line.partition(" ")
            target = rest.rpartition(" ")[0]
            noted.asked.append(f"{method} {target}")
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                first, hello = b"", b"HTTP/1.1 200 OK\r\n\r\n"
            else:
                parts = urlsplit(target)
                host, port = parts.hostname or "", str(parts.port or 80)
                path = target.partition(parts.netloc)[2] or "/"
                first, hello = f"{method} {path} HTTP/1.1\r\nConnection: close\r\n".encode() + head + b"\r\n", b""
            try:
                other = socket.create_connection((host.strip("[]"), int(port)), _SECONDS)
            except OSError:
                self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                return
            with other:
                self.wfile.write(hello)
                other.sendall(first)
                back = threading.Thread(target=hand_on, args=(other, self.connection))
                back.start()
                hand_on(self.connection, other)
                back.join()

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True
        request_queue_size = 64

    with running(Server(str(noted.socket), Handler)):
        yield noted
