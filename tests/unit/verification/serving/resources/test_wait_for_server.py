"""When a server takes requests."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cpuwheels.verification.serving.resources.wait_for_server import healthy


@pytest.mark.parametrize(("status", "expected"), [(200, True), (503, False)])
def test_only_a_server_that_says_so_is_healthy(status: int, expected: bool) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/health"
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    assert healthy(server.server_port) is expected
    server.shutdown()
    thread.join()
    server.server_close()
    assert not healthy(server.server_port)
