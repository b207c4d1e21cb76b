"""Files of a mirror: taken from where they are, fetched once, and anew if they are damaged."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cpuwheels.config.pins import TorchPin
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import DigestMismatchError, MirrorError
from cpuwheels.core.store import Store
from cpuwheels.fetch.download import Pinned, fetch
from cpuwheels.rebuild.mirror.fetching import Fetcher, runs_here
from cpuwheels.rebuild.mirror.wanted import LockedPackage, WantedFile
from loopback import Answer, Server

CONTENT = b"bytes of a package"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def fetcher(tmp_path: Path, store: Store, reporter: Reporter) -> Fetcher:
    return Fetcher(tmp_path / "mirror", store, reporter, (TorchPin(index="https://download.invalid/whl/cpu"),))


def wanted(*urls: str, name: str = "a.deb") -> WantedFile:
    return WantedFile(name, SHA256, "toolchain", urls)


def test_a_file_is_fetched_once_and_lies_below_its_digest(fetcher: Fetcher, tmp_path: Path) -> None:
    with Server() as server:
        url = server.serve("/a.deb", Answer(CONTENT))
        first = fetcher.keep(wanted(url))
        assert (tmp_path / "mirror" / first.place).read_bytes() == CONTENT
        assert first.place == f"files/{SHA256}/a.deb"
        assert fetcher.keep(wanted(url)) == first
        assert len(server.asked) == 1
        (tmp_path / "mirror" / first.place).write_bytes(b"damaged")
        fetcher.keep(wanted(url))
        assert (tmp_path / "mirror" / first.place).read_bytes() == CONTENT


def test_what_the_stores_have_is_not_fetched(fetcher: Fetcher, store: Store, tmp_path: Path) -> None:
    (tmp_path / "b.deb").write_bytes(CONTENT)
    fetch(Pinned("b", ((tmp_path / "b.deb").as_uri(),), SHA256), store)
    assert fetcher.keep(wanted("http://127.0.0.1:9/a.deb")).name == "b.deb"


def test_other_bytes_are_refused_and_leave_nothing(fetcher: Fetcher, tmp_path: Path) -> None:
    with Server() as server:
        url = server.serve("/a.deb", Answer(b"other"))
        with pytest.raises(DigestMismatchError):
            fetcher.keep(wanted(url))
    assert not [path for path in (tmp_path / "mirror").rglob("*") if path.is_file()]


def test_what_nobody_trusted_names_an_address_of(fetcher: Fetcher) -> None:
    with pytest.raises(MirrorError, match=r"nothing that is trusted says where a\.deb"):
        fetcher.keep(wanted())


def test_torch_is_taken_from_where_a_build_takes_it(
    fetcher: Fetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links").mkdir()
    for name, content in (
        ("torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl", CONTENT),
        ("torch-1-py3-none-any.whl", b""),
    ):
        (tmp_path / "links" / name).write_bytes(content)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    found = fetcher.keep(WantedFile("torch", SHA256, "torch", (), project="torch"))
    assert (found.name, found.project) == ("torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl", "torch")


def test_wheels_of_a_locked_package_are_found_by_their_digests(
    fetcher: Fetcher, tmp_path: Path, store: Store, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["b-1-py3-none-any.whl", "b-1-py3-none-win_amd64.whl", "b-1.tar.gz", "b-2-py3-none-any.whl"]
    with Server() as server:
        links = ""
        for name in names:
            content = name.encode()
            server.serve(f"/f/{name}", Answer(content))
            links += f'<a href="/f/{name}#sha256={hashlib.sha256(content).hexdigest()}">{name}</a>\n'
        page = f"<html><body>{links}</body></html>"
        monkeypatch.setenv("UV_DEFAULT_INDEX", server.url("/simple"))
        server.serve("/simple/b/", Answer(page.encode(), headers={"Content-Type": "text/html"}))
        digests = frozenset(hashlib.sha256(name.encode()).hexdigest() for name in names[:3])
        (found,) = fetcher.keep_package(LockedPackage("b", "1", digests))
        assert (found.name, found.project, found.stage) == (names[0], "b", "driver")
        asked = len(server.asked)
        again = Fetcher(tmp_path / "mirror", store, reporter, known=(found,))
        assert again.keep_package(LockedPackage("b", "1", digests)) == [found]
        assert len(server.asked) == asked
        with pytest.raises(MirrorError, match="no wheel of b 1 that the lock names"):
            fetcher.keep_package(LockedPackage("b", "1", frozenset({"0" * 64})))


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("a-1-py3-none-any.whl", True),
        ("a-1-py2.py3-none-any.whl", True),
        ("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", True),
        ("a-1-cp38-abi3-manylinux_2_28_x86_64.whl", True),
        ("a-1-cp311-cp311-win_amd64.whl", False),
        ("a-1-cp310-cp310-manylinux_2_17_x86_64.whl", False),
        ("a-1-cp314-cp314t-manylinux_2_17_x86_64.whl", False),
        ("a-1-py2-none-any.whl", False),
        ("a-1-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("a-1-cp311-cp311-manylinux_2_17_s390x.whl", False),
        ("a-1-pp311-pypy311_pp73-manylinux_2_17_x86_64.whl", False),
        ("a-1.tar.gz", False),
        ("a.whl", False),
    ],
)
def test_which_wheels_a_machine_can_use(name: str, runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert runs_here(name) is runs
