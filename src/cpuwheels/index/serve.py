"""A web server for an index in a folder, for this machine alone."""

from __future__ import annotations

import functools
import http.server
import sys
from typing import TYPE_CHECKING

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import PublishError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOST = "127.0.0.1"


def serve(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve a folder until interrupted.

    Args:
        folder: The index.
        port: 0 for any that is free.
        ready: Called with the address.

    Raises:
        PublishError: There is no index, or the port is taken.
    """
    if not (folder / "index.json").is_file():
        raise PublishError(
            "there is no index",
            where=folder,
            next_step=f"publish a wheel into it first: {command_line('publish', '', 'WHEEL')}",
        )
    handler = functools.partial(_Handler, directory=str(folder))
    try:
        server = _Server((HOST, port), handler)
    except OSError as error:
        raise PublishError(
            f"port {port} cannot be used: {error.strerror}", where="--port", next_step="give another, or 0 for any"
        ) from error
    with server:
        ready(f"http://{HOST}:{server.server_address[1]}/")
        server.serve_forever(poll_interval=0.1)


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Report an error, unless a client has closed the connection: package managers do that on purpose."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # only printed


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".whl": "application/zip",
        ".metadata": "text/plain",
        ".html": "text/html; charset=utf-8",
    }

    def log_message(self, *_: object) -> None:
        """Say nothing."""
