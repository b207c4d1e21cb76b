"""A shared store behind a web server: what answers is taken, and who answers too slowly is not waited for."""

from __future__ import annotations

import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.elsewhere import taken_from
from cpuwheels.core.limits import Patience
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.fetch.requests import Requests, listed, watched
from cpuwheels.shared.description import description_path
from cpuwheels.shared.folder import Folder
from cpuwheels.shared.place import PlaceFaultError
from cpuwheels.shared.web import Web
from loopback import DEAD
from raw_server import RawServer, drip, head
from running import Quiet, running
from shared_stores import KERNELS, make_kernels, other_store, reader, share_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUICK = Patience(answer=0.3, rate=1000, window=0.3, whole=1)


class Handler(Quiet, SimpleHTTPRequestHandler):
    """Serves a folder."""


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[str]:
    """Address of a web server with the kernels of a store."""
    make_kernels(store)
    share_all(store, Folder(tmp_path / "shared"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / "shared")))
    with running(server) as address:
        yield address


def test_what_is_in_a_folder_can_be_served(served: str, tmp_path: Path, told: list[str]) -> None:
    other = other_store(tmp_path / "other")
    with taken_from(reader(Web(served + "/"), told)):
        assert other.find("kernels", KERNELS)
        assert other.find("kernels", "f" * 24) is None
    assert told == []


def test_a_locked_run_may_ask_and_notes_it(served: str, tmp_path: Path, told: list[str]) -> None:
    log = tmp_path / "requests.log"
    other = other_store(tmp_path / "other")
    with watched(Requests(log, listed("an empty list", []))), taken_from(reader(Web(served), told)):
        assert other.find("kernels", KERNELS)
    assert told == []
    assert f"get {served}/{description_path('kernels', KERNELS, Trust.RELEASE)}" in log.read_text()


def test_no_server_is_reported_once(tmp_path: Path, told: list[str]) -> None:
    other = other_store(tmp_path / "other")
    with taken_from(reader(Web(DEAD), told)):
        assert [other.find("kernels", key * 24) for key in "abc"] == [None] * 3
    (line,) = told
    assert line.startswith("the shared store is not used any more, what it may have is made here: http://127.0.0.1:9/")
    assert "no connection" in line


@pytest.mark.parametrize("status", ["500 Oops", "302 Found", "401 Unauthorized"])
def test_a_server_with_a_fault_is_not_used(tmp_path: Path, told: list[str], status: str) -> None:
    with RawServer(lambda _, send: send(head("Content-Length: 0", status=status))) as server:
        with taken_from(reader(Web(server.url("/store")), told)):
            assert other_store(tmp_path / "other").find("kernels", KERNELS) is None
        assert len(server.asked) == 1
    assert "not used any more" in told[0]


@pytest.mark.parametrize("status", ["403 Forbidden", "404 Not Found", "410 Gone"])
def test_what_is_not_there_is_no_fault(tmp_path: Path, told: list[str], status: str) -> None:
    with (
        RawServer(lambda _, send: send(head("Content-Length: 0", status=status))) as server,
        taken_from(reader(Web(server.url("/store")), told)),
    ):
        assert other_store(tmp_path / "other").find("kernels", KERNELS) is None
    refused = 1 if "403" in status else 0
    assert [" refuses to be read (403)" in line for line in told] == [True] * refused


def silent(_: str, send: Callable[[bytes], None]) -> None:
    del send
    threading.Event().wait(3)


def dripping(_: str, send: Callable[[bytes], None]) -> None:
    send(head("Content-Length: 100"))
    drip(send)


@pytest.mark.parametrize("answer", [silent, dripping])
def test_a_slow_server_is_not_waited_for(
    tmp_path: Path, told: list[str], answer: Callable[[str, Callable[[bytes], None]], None]
) -> None:
    began = time.monotonic()
    with RawServer(answer) as server:
        web = Web(server.url(""), small=QUICK, large=QUICK)
        with taken_from(reader(web, told)):
            assert [other_store(tmp_path / "other").find("kernels", key * 24) for key in "ab"] == [None] * 2
        assert time.monotonic() - began < 2.5
        assert len(server.asked) == 1
    assert "not used any more" in told[0]


def test_more_than_was_announced_is_not_read() -> None:
    with RawServer(lambda _, send: send(head("Content-Length: 1000") + b"x" * 1000)) as server:
        with pytest.raises(PlaceFaultError) as raised:
            Web(server.url("")).read("a", 10)
        assert raised.value.alone


def test_an_answer_that_is_cut_off_is_a_fault(tmp_path: Path, told: list[str]) -> None:
    with (
        RawServer(lambda _, send: send(head("Content-Length: 1000") + b"x")) as server,
        taken_from(reader(Web(server.url("")), told)),
    ):
        assert other_store(tmp_path / "other").find("kernels", KERNELS) is None
    assert len(told) == 1
