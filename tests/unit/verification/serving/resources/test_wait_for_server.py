"""When a server takes requests."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cpuwheels.verification.serving.resources.wait_for_server import healthy
from running import Quiet, running


@pytest.mark.parametrize(("status", "expected"), [(200, True), (503, False)])
def test_only_a_server_that_says_so_is_healthy(status: int, expected: bool) -> None:
    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/health"
            self.send_response(status)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with running(server):
        assert healthy(server.server_port) is expected
    assert not healthy(server.server_port)
