"""What a locked run may ask for, and what every run notes of what it asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.downloads import Download
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.errors import DownloadError, LockedError
from cpuwheels.core.store import Store
from cpuwheels.fetch.download import Pinned, download, fetch
from cpuwheels.fetch.http_stream import http_answer
from cpuwheels.fetch.requests import FILE, Listed, Requests, address, current, is_locked, listed, watched
from cpuwheels.fetch.simple_index import index_files
from cpuwheels.fetch.uv import uv_environment
from loopback import Answer, Server
from sample_source import sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = b"what is pinned"
COMMIT = "c" * 40


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def digest(tmp_path: Path) -> str:
    (tmp_path / "content").write_bytes(CONTENT)
    return sha256(tmp_path / "content")


def allowed(*rows: Download, **places: list[str]) -> Listed:
    return listed("locks/downloads/x86.json", rows, **places)  # type: ignore[arg-type]


def locked(tmp_path: Path, *rows: Download, **places: list[str]) -> Requests:
    return Requests(tmp_path / FILE, allowed(*rows, **places))


def row(digest: str, location: str = "", page: str = "") -> Download:
    return Download(stage="toolchain", name="a", digest={"sha256": digest}, location=location, page=page)


def test_an_address_is_host_and_path() -> None:
    assert address("https://User:secret@Files.Example.org/a%2Bb/?x=1#y") == "files.example.org/a+b"
    assert address("http://a.org:8080/x") == "a.org:8080/x"
    assert address("git@a.org:x") == address("git@a.org:x")
    assert address("https://a.org:no-port/x") == "a.org:no-port/x"  # an index's page may have it


def test_what_is_listed_is_fetched_and_noted(server: Server, tmp_path: Path, digest: str) -> None:
    url = server.serve("/a.deb", Answer(CONTENT))
    with watched(locked(tmp_path, row(digest, url))):
        assert is_locked()
        found = fetch(Pinned("a", (url,), digest), Store(tmp_path / "store"))
    assert found.read_bytes() == CONTENT
    assert (tmp_path / FILE).read_text() == f"get {url}\n"
    assert not is_locked()


def test_another_digest_at_a_listed_address_is_refused_before_it_is_asked_for(
    server: Server, tmp_path: Path, digest: str
) -> None:
    url = server.serve("/a.deb", Answer(CONTENT))
    with (
        watched(locked(tmp_path, row("0" * 64, url))),
        pytest.raises(LockedError, match=r"locks/downloads/x86\.json, and --locked fetches nothing else") as caught,
    ):
        fetch(Pinned("the package a", (url,), digest), Store(tmp_path / "store"))
    assert "the package a with the sha256" in caught.value.what
    assert (caught.value.where, caught.value.exit_code) == (url, 22)
    assert "nox -s lock" in caught.value.next_step
    assert server.asked == []


def test_a_listed_digest_at_another_address_is_refused(server: Server, tmp_path: Path, digest: str) -> None:
    url = server.serve("/elsewhere/a.deb", Answer(CONTENT))
    with (
        watched(locked(tmp_path, row(digest, server.url("/a.deb")))),
        pytest.raises(LockedError, match="is not an address of"),
    ):
        download(Pinned("a", (url,), digest), tmp_path / "a")
    assert server.asked == []


def test_a_file_without_a_digest_is_refused(server: Server, tmp_path: Path, digest: str) -> None:
    url = server.serve("/a", Answer(CONTENT))
    with watched(locked(tmp_path, row(digest, url))), pytest.raises(LockedError, match="has no digest"):
        download(Pinned("the page", (url,), None), tmp_path / "a")
    assert server.asked == []


def test_debian_s_packages_come_from_any_mirror_that_is_named(server: Server, tmp_path: Path, digest: str) -> None:
    package = row(digest, "https://deb.debian.org/debian/pool/a/a_1+b_amd64.deb")
    url = server.serve("/debian/pool/a/a_1+b_amd64.deb", Answer(CONTENT))
    mirror = server.url("/debian")
    with watched(locked(tmp_path, package, mirrors=[mirror])):
        download(Pinned("a", (url,), digest), tmp_path / "a")
    with watched(locked(tmp_path, package, mirrors=[mirror])), pytest.raises(LockedError):
        download(Pinned("a", (server.url("/debian/pool/b.deb"),), digest), tmp_path / "a")
    with watched(locked(tmp_path, package)), pytest.raises(LockedError):
        download(Pinned("a", (url,), digest), tmp_path / "a")


def test_addresses_are_learnt_from_a_listed_page_for_listed_digests_alone(
    server: Server, tmp_path: Path, digest: str
) -> None:
    wheel = server.serve("/files/a-1-py3-none-any.whl", Answer(CONTENT))
    other = server.serve("/files/b-1-py3-none-any.whl", Answer(b"other"))
    anchors = f'<a href="{wheel}#sha256={digest}">a-1-py3-none-any.whl</a><a href="{other}#sha256={"1" * 64}">b</a>'
    page = server.serve("/simple/a/", Answer(anchors.encode(), headers={"Content-Type": "text/html"}))
    with watched(locked(tmp_path, row(digest, page=page))):
        assert index_files(page, setting="X")
        download(Pinned("a", (wheel,), digest), tmp_path / "a")
        with pytest.raises(LockedError), http_answer(other, most=100):
            pass
        with pytest.raises(LockedError):
            index_files(server.url("/simple/b/"), setting="X")
    assert server.asked == ["/simple/a/", "/files/a-1-py3-none-any.whl"]


def test_where_a_server_sends_a_request_is_noted_without_what_may_be_a_credential(
    server: Server, tmp_path: Path, digest: str
) -> None:
    there = server.serve("/there", Answer(CONTENT))
    url = server.serve("/here", Answer(status=302, headers={"Location": f"{there}?signature=secret"}))
    server.serve("/there?signature=secret", Answer(CONTENT))
    with watched(locked(tmp_path, row(digest, url))):
        download(Pinned("a", (url,), digest), tmp_path / "a")
    assert (tmp_path / FILE).read_text().splitlines() == [f"get {url}", f"redirected {there}"]


def test_a_redirect_to_a_server_that_is_not_listed_is_not_followed(server: Server, tmp_path: Path, digest: str) -> None:
    with Server() as other:
        there = other.serve("/there", Answer(CONTENT))
        url = server.serve("/here", Answer(status=302, headers={"Location": there}))
        with watched(locked(tmp_path, row(digest, url))), pytest.raises(DownloadError) as caught:
            download(Pinned("a", (url,), digest), tmp_path / "a")
        assert f"a redirect to {there}; locks/downloads/x86.json has nothing on that server" in caught.value.output
        assert other.asked == []
        with watched(locked(tmp_path, row(digest, url), mirrors=[other.url("/debian")])):
            download(Pinned("a", (url,), digest), tmp_path / "a")
        with watched(Requests(tmp_path / FILE)):
            download(Pinned("a", (url,), digest), tmp_path / "a")
        assert other.asked == ["/there", "/there"]


def test_a_run_that_is_not_locked_is_only_noted(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a", Answer(CONTENT)).replace("http://", "http://user:secret@")
    with watched(Requests(tmp_path / FILE)):
        download(Pinned("a", (url,), None), tmp_path / "a")
    assert (tmp_path / FILE).read_text() == f"get {url.replace('user:secret@', '')}\n"
    assert current() is None


def test_threads_that_work_for_a_run_are_watched_too(tmp_path: Path) -> None:
    with watched(locked(tmp_path)):
        assert run_parallel([is_locked, is_locked, is_locked], 3) == [True, True, True]


def test_commits_and_repositories(tmp_path: Path) -> None:
    commit = Download(
        stage="onednn", name="oneDNN", digest={"gitCommit": COMMIT}, uri=f"git+https://a.org/x.git@{COMMIT}"
    )
    requests = locked(tmp_path, commit, repositories=["https://a.org/x.git"])
    requests.commit("oneDNN v1", COMMIT)
    with pytest.raises(LockedError, match=r"oneDNN v2 with the commit d+ is not in"):
        requests.commit("oneDNN v2", "d" * 40)
    requests.repository("https://a.org/x.git")
    for here in ("/srv/clone", "clone", "./a:b", "file:///srv/clone"):
        requests.repository(here)
    for other in ("https://a.org/y.git", "git@a.org:y", "a.org:y", "ssh://a.org/x.git/more"):
        with pytest.raises(LockedError, match="is no repository of"):
            requests.repository(other)
    assert (tmp_path / FILE).read_text() == "git https://a.org/x.git\n"


def test_uv_gets_no_network_in_a_locked_run(tmp_path: Path) -> None:
    with watched(locked(tmp_path)):
        assert uv_environment()["UV_OFFLINE"] == "1"
    with watched(Requests(tmp_path / FILE)):
        assert "UV_OFFLINE" not in uv_environment()
