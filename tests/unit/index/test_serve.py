"""The index served on this machine."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from cpuwheels.core.errors import PublishError
from cpuwheels.index import serve as serving
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
    client.sendall(b"GET /a%2Bb.whl HTTP/1.1\r\nHost: localhost\r\n\r\n")
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


def ask(address: str, head: str) -> bytes:
    """Send a request as it is, and return the answer up to the end of the connection."""
    port = int(address.rstrip("/").rpartition(":")[2])
    with socket.create_connection((HOST, port), timeout=30) as client:
        client.sendall(head.encode("latin-1"))
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def get(path: str, host: str = "localhost") -> str:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"


def test_a_folder_leads_to_its_page(address: str) -> None:
    answer = ask(address, get("/nightly"))
    assert b" 301 " in answer
    assert b"Location: /nightly/\r\n" in answer
    assert ask(address, get("/nightly/")).endswith(b"<p>")
    assert ask(address, get("/nightly/").replace("GET", "HEAD")).endswith(b"\r\n\r\n")


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1", "127.0.0.1:1", "LOCALHOST"])
def test_it_answers_to_this_machines_names(address: str, host: str) -> None:
    assert b" 200 " in ask(address, get("/nightly/", host))


@pytest.mark.parametrize("host", ["example.org", "localhost.example.org", "127.0.0.1.example.org", "", "[", "0.0.0.0"])
def test_and_to_no_other(address: str, host: str) -> None:
    answer = ask(address, get("/nightly/", host))
    assert b" 421 " in answer
    assert b"<p>" not in answer.partition(b"\r\n\r\n")[2].replace(b"<p>Error", b"").replace(b"<p>Message", b"")


def test_two_hosts_are_none(address: str) -> None:
    assert b" 421 " in ask(address, get("/nightly/").replace("Host:", "Host: localhost\r\nHost:"))


@pytest.mark.parametrize("head", ["Content-Length: 5", "Transfer-Encoding: chunked", "Content-Length: x"])
def test_a_request_with_content_is_refused(address: str, head: str) -> None:
    assert b" 400 " in ask(address, get("/nightly/").replace("Host:", f"{head}\r\nHost:") + "GET /")


@pytest.mark.parametrize(
    "path",
    [
        *("/.hidden", "/.git/config", "/nightly/.hidden", "/link", "/linked/file", "/..", "/pipe", "/%00", "/%ff"),
        *("/nightly/../../outside/file", "/%2e%2e/outside/file", "/nightly/..%2f..%2foutside/file", "//etc/hostname"),
        *("/nightly//index.html", "/nightly\\..\\x", "nightly/", "/nightly/index.html/", "/nightly/index.html/x"),
        f"/{'a' * 300}",
    ],
)
def test_only_files_of_the_index_are_served(address: str, tmp_path: Path, path: str) -> None:
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "file").write_text("the user's")
    for name in (".hidden", "nightly/.hidden"):
        (tmp_path / name).write_text("the user's")
    (tmp_path / "link").symlink_to(outside / "file")
    (tmp_path / "linked").symlink_to(outside)
    os.mkfifo(tmp_path / "pipe")
    answer = ask(address, get(path))
    assert b" 404 " in answer
    assert b"the user's" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "CONNECT", "OPTIONS"])
def test_it_reads_only(address: str, method: str) -> None:
    assert b" 501 " in ask(address, get("/nightly/").replace("GET", method))


def test_who_sends_nothing_or_drips_is_cut_off(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.5)
    port = int(address.rstrip("/").rpartition(":")[2])
    began = time.monotonic()
    with socket.create_connection((HOST, port), timeout=30) as client, suppress(ConnectionError):
        for byte in get("/nightly/").encode() * 10:
            client.sendall(bytes([byte]))
            time.sleep(0.05)
            if time.monotonic() - began > 10:
                break
    assert time.monotonic() - began < 5
    assert urllib.request.urlopen(f"{address}nightly/").status == 200


def test_too_many_connections_are_closed_and_the_others_are_answered(address: str) -> None:
    port = int(address.rstrip("/").rpartition(":")[2])
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection((HOST, port), timeout=30)) for _ in range(80)]
        time.sleep(0.5)
        ends = 0
        for client in held:
            client.settimeout(0.01)
            with suppress(TimeoutError, ConnectionError):
                ends += client.recv(1) == b""
        assert ends == 80 - serving.CONNECTIONS
        held[0].settimeout(30)
        held[0].sendall(get("/nightly/").encode())
        assert b" 200 " in held[0].recv(1000)
