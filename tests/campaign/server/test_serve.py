"""The index's own web server, asked by whoever reaches this machine: its files, and nothing else."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from attacked_index import files
from cpuwheels.index import serve as module

Served = tuple[Path, int]


def ask(port: int, head: str) -> bytes:
    with socket.create_connection((module.HOST, port), timeout=30) as client, suppress(OSError):
        client.sendall(head.encode("latin-1"))
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))
    return b""


def request(path: str, host: str = "localhost", method: str = "GET", more: str = "") -> str:
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"


PATHS = {
    "23-hidden-file": "/.secret",
    "24-publishers-lock": "/.publishing.lock",
    "25-link-to-a-file": "/link",
    "26-link-to-a-folder": "/linked/secret",
    "27-parent": "/../secret",
    "28-parent-escaped": "/%2e%2e/secret",
    "29-parent-with-a-backslash": "/..\\secret",
    "30-absolute": "//etc/passwd",
    "31-nul": "/index.html%00",
    "32-pipe": "/pipe",
    "33-not-utf-8": "/%ff%fe",
    "34-another-address": "http://evil.example.org/index.html",
}


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in PATHS])
def test_a_path_that_is_no_file_of_the_index(served: Served, case: str) -> None:
    root, port = served
    (root / ".secret").write_text("the user's")
    (root / "link").symlink_to(root.parent / "secret")
    (root / "linked").symlink_to(root.parent)
    os.mkfifo(root / "pipe")
    answer = ask(port, request(PATHS[case]))
    assert b"the user's" not in answer
    assert b"root:" not in answer
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert ask(port, request("/index.html")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(request("/index.html", "evil.example.org"), id="35-another-host"),
        pytest.param(request("/index.html", "localhost.evil.example.org"), id="36-a-host-that-begins-so"),
        pytest.param(request("/index.html", "localhost", more="Host: evil.example.org\r\n"), id="37-two-hosts"),
        pytest.param("GET /index.html HTTP/1.1\r\n\r\n", id="38-no-host"),
        pytest.param("GET /index.html\r\n\r\n", id="39-http-0.9"),
        pytest.param(request("/index.html", more="Content-Length: 9\r\n") + "GET /a HT", id="40-with-content"),
        pytest.param(request("/index.html", more="Transfer-Encoding: chunked\r\n"), id="41-in-chunks"),
        pytest.param(request("/index.html", method="POST"), id="42-post"),
        pytest.param(request("/index.html", method="PUT"), id="43-put"),
        pytest.param(request("/" + "a" * 100_000), id="44-long-path"),
        pytest.param(request("/index.html", more="".join(f"X-{n}: a\r\n" for n in range(500))), id="45-many-headers"),
        pytest.param("\0\0\0\0\r\n\r\n", id="46-no-http"),
    ],
)
def test_a_request_that_nobody_who_installs_makes(served: Served, head: str) -> None:
    root, port = served
    before = files(root)
    answer = ask(port, head)
    assert b"<title>vLLM wheels" not in answer
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    assert files(root) == before
    assert ask(port, request("/index.html")).startswith(b"HTTP/1.1 200 ")


def test_47_a_client_that_drips(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.5)
    _, port = served
    began = time.monotonic()
    with socket.create_connection((module.HOST, port), timeout=30) as client, suppress(ConnectionError):
        while time.monotonic() - began < 15:
            client.sendall(b"G")
            time.sleep(0.05)
    assert time.monotonic() - began < 10
    assert ask(port, request("/index.html")).startswith(b"HTTP/1.1 200 ")


def test_48_more_clients_than_it_takes(served: Served) -> None:
    _, port = served
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection((module.HOST, port), timeout=30)) for _ in range(200)]
        clients[0].sendall(request("/index.html").encode())
        assert clients[0].recv(100).startswith(b"HTTP/1.1 200 ")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not ask(port, request("/index.html")).startswith(b"HTTP/1.1 200 "):
        time.sleep(0.1)
    assert ask(port, request("/index.html")).startswith(b"HTTP/1.1 200 ")


def test_49_only_this_machine_reaches_it(served: Served) -> None:
    _, port = served
    rows = []
    for table in ("tcp", "tcp6"):
        rows += [line.split() for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]]
    bound = [row[1] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"]  # those that listen
    assert bound == [f"0100007F:{port:04X}"]


def test_50_pages_are_what_they_are_said_to_be(served: Served) -> None:
    _, port = served
    for path, kind in (("/index.html", b"text/html"), ("/commits.json", b"application/json")):
        head = ask(port, request(path)).partition(b"\r\n\r\n")[0]
        assert b"X-Content-Type-Options: nosniff" in head
        assert kind in head
