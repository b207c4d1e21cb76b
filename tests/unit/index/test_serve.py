"""The index served on this machine."""

from __future__ import annotations

import queue
import socket
import threading
import urllib.request
from pathlib import Path

import pytest

from cpuwheels.core.errors import PublishError
from cpuwheels.index.serve import HOST, serve


@pytest.fixture
def address(tmp_path: Path) -> str:
    (tmp_path / "index.json").write_text("{}")
    (tmp_path / "nightly").mkdir()
    (tmp_path / "nightly" / "index.html").write_text("<p>")
    (tmp_path / "a+b.whl").write_bytes(b"x" * 10_000_000)
    told: queue.Queue[str] = queue.Queue()
    threading.Thread(target=serve, args=(tmp_path, 0, told.put), daemon=True).start()
    return told.get(timeout=10)


def test_pages_and_wheels_are_served_on_this_machine_alone(address: str) -> None:
    assert address.startswith("http://127.0.0.1:")
    page = urllib.request.urlopen(f"{address}nightly/")
    assert page.read() == b"<p>"
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    wheel = urllib.request.urlopen(f"{address}a%2Bb.whl")
    assert wheel.headers["Content-Type"] == "application/zip"
    assert len(wheel.read()) == 10_000_000


def test_a_client_that_goes_away_is_no_news(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    port = int(address.rstrip("/").rpartition(":")[2])
    client = socket.create_connection((HOST, port))
    client.sendall(b"GET /a%2Bb.whl HTTP/1.1\r\nHost: x\r\n\r\n")
    client.recv(100)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.close()
    assert urllib.request.urlopen(f"{address}nightly/").status == 200
    assert capfd.readouterr() == ("", "")


def test_no_index_and_a_port_that_is_taken(tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="there is no index"):
        serve(tmp_path, 0, print)
    (tmp_path / "index.json").write_text("{}")
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(PublishError, match="cannot be used"):
            serve(tmp_path, taken.getsockname()[1], print)
