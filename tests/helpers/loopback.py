"""A web server on this machine that answers as it is told, wrongly too."""

from __future__ import annotations

import gzip
import http.server
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from running import Quiet, running

if TYPE_CHECKING:
    from collections.abc import Sequence

DEAD = "http://127.0.0.1:9"
"""The discard port, on which nothing listens."""


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        body: What is sent.
        status: HTTP status.
        headers: Besides the length.
        announced: Content-Length, if another than the body has.
        compresses: Whether the server packs the body for a client that says it can unpack.
        held_open: Whether the connection stays open after the body until the server ends.
        ranges: Whether parts are handed out to a client that asks for them.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    announced: int | None = None
    compresses: bool = False
    held_open: bool = False
    ranges: bool = False


class Server:
    """Serves answers by path; the last of several is repeated for ever."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.sent = 0
        self._ended = threading.Event()
        self._answers: dict[str, list[Answer]] = {}
        server = self

        class Handler(Quiet, http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                self._send(server._next(self.path))

            def do_HEAD(self) -> None:
                self._send(server._next(self.path), head=True)

            def _send(self, answer: Answer, *, head: bool = False) -> None:
                body, headers = answer.body, dict(answer.headers)
                if answer.compresses and "gzip" in self.headers.get("Accept-Encoding", ""):
                    body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
                status = answer.status
                if answer.ranges and (asked := self.headers.get("Range", "")):
                    first, _, last = asked.removeprefix("bytes=").partition("-")
                    start = int(first) if first else max(0, len(body) - int(last))
                    end = min(int(last), len(body) - 1) if first and last else len(body) - 1
                    headers["Content-Range"] = f"bytes {start}-{end}/{len(body)}"
                    status, body = 206, body[start : end + 1]
                server.sent += len(body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(answer.announced or len(body)))
                self.end_headers()
                if not head:
                    self.wfile.write(body)
                self.wfile.flush()
                if answer.held_open:
                    server._ended.wait()

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._life = ExitStack()

    def __enter__(self) -> Self:
        self._life.enter_context(running(self._server))
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._life.close()

    def serve(self, path: str, *answers: Answer) -> str:
        """Answer a path, and return its URL."""
        self._answers[path] = list(answers)
        return self.url(path)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def _next(self, path: str) -> Answer:
        answers: Sequence[Answer] = self._answers.get(path, [Answer(status=404)])
        return self._answers[path].pop(0) if len(answers) > 1 else answers[0]
