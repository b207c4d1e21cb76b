"""A second server that speaks S3, written for these tests: strict about conditions, and with faults on demand.

Its e-tags are no digests, its lists come in pages of two, it signs nothing and asks for no signature.
"""

from __future__ import annotations

import http.server
import itertools
import re
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from email.utils import formatdate
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from running import Quiet, running

_ISO = "%Y-%m-%dT%H:%M:%S.000Z"
PAGE = 2
"""Keys of a page of a list."""


@dataclass
class Kept:
    """An object."""

    content: bytes
    tag: str
    changed: float


class OtherS3:
    """The server.

    Attributes:
        objects: By bucket and key, with a slash between them.
        cut: How many of the next uploads lose their connection in the middle.
        asked: Method and key of each request.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Kept] = {}
        self.cut = 0
        self.asked: list[tuple[str, str]] = []
        self._tags = itertools.count(1)
        self._guard = threading.Lock()
        server = self

        class Handler(Quiet, http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server._get(self, head=False)

            def do_HEAD(self) -> None:
                server._get(self, head=True)

            def do_PUT(self) -> None:
                server._put(self)

            def do_POST(self) -> None:
                server._remove(self)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._life = ExitStack()

    def __enter__(self) -> Self:
        self._life.enter_context(running(self._server))
        return self

    def __exit__(self, *_: object) -> None:
        self._life.close()

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(
        self, handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str
    ) -> None:
        """Send an answer."""
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _key(self, handler: http.server.BaseHTTPRequestHandler) -> str:
        key = unquote(urlsplit(handler.path).path).strip("/")
        self.asked.append((handler.command, key))
        return key

    def _get(self, handler: http.server.BaseHTTPRequestHandler, *, head: bool) -> None:
        query = parse_qs(urlsplit(handler.path).query)
        key = self._key(handler)
        if "list-type" in query:
            self._list(handler, key, query)
            return
        with self._guard:
            kept = self.objects.get(key)
        if kept is None:
            self.answer(handler, 404)
            return
        body, status, more = kept.content, 200, {}
        if asked := handler.headers.get("Range", ""):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            more = {"Content_Range": f"bytes {first}-{min(int(last), len(body) - 1)}/{len(body)}"}
            body, status = body[int(first) : int(last) + 1], 206
        changed = formatdate(kept.changed, usegmt=True)
        length = str(len(body))
        self.answer(
            handler, status, b"" if head else body, ETag=kept.tag, Last_Modified=changed, Content_Length=length, **more
        )

    def _put(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        key, size = self._key(handler), int(handler.headers["Content-Length"])
        if self.cut:
            self.cut -= 1
            handler.rfile.read(size // 2)
            handler.close_connection = True
            handler.connection.close()
            return
        content = handler.rfile.read(size)
        with self._guard:
            kept = self.objects.get(key)
            wanted, no = handler.headers.get("If-Match"), handler.headers.get("If-None-Match")
            if (no == "*" and kept) or (wanted is not None and (kept is None or kept.tag != wanted)):
                self.answer(handler, 412)
                return
            made = self.objects[key] = Kept(content, f'"{next(self._tags)}"', time.time())
        self.answer(handler, 200, ETag=made.tag)

    def _remove(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Remove the objects of a list (DeleteObjects); one that is not there counts as removed."""
        bucket, text = self._key(handler), handler.rfile.read(int(handler.headers["Content-Length"])).decode()
        keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", text)]
        with self._guard:
            for key in keys:
                self.objects.pop(f"{bucket}/{key}", None)
        rows = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(handler, 200, f"<DeleteResult>{rows}</DeleteResult>".encode(), Content_Type="application/xml")

    def _list(self, handler: http.server.BaseHTTPRequestHandler, bucket: str, query: dict[str, list[str]]) -> None:
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        with self._guard:
            found = sorted(
                (key.removeprefix(f"{bucket}/"), kept)
                for key, kept in self.objects.items()
                if key.startswith(f"{bucket}/{prefix}")
            )
        left = [(key, kept) for key, kept in found if key > after]
        page, more = left[:PAGE], left[PAGE:]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(kept.content)}</Size><ETag>{escape(kept.tag)}</ETag>"
            f"<LastModified>{time.strftime(_ISO, time.gmtime(kept.changed))}</LastModified></Contents>"
            for key, kept in page
        )
        token = f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>" if more else ""
        body = f"<ListBucketResult><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{token}{rows}</ListBucketResult>"
        self.answer(handler, 200, body.encode(), Content_Type="application/xml")
