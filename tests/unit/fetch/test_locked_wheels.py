"""Wheels of a lock that are fetched without uv."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.tags import Tag, sys_tags

from cpuwheels.config.downloads import python_files
from cpuwheels.config.python_lock import LockedFile, locked_files
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store
from cpuwheels.fetch.locked_wheels import best_wheels, locations, tags_here, wheels_place
from cpuwheels.fetch.requests import FILE, Requests, listed, watched
from loopback import DEAD, Answer, Server
from sample_source import sha256
from small_wheels import write_wheel

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def file(name: str, version: str = "1", url: str = "https://a.org/x.whl", sha: str = "0" * 64) -> LockedFile:
    return LockedFile(project="a", version=version, name=name, url=url, sha256=sha)


def test_the_wheel_that_fits_best_is_taken_of_each_version() -> None:
    tags = [Tag("cp311", "cp311", "linux_x86_64"), Tag("py3", "none", "any")]
    any_, own, other = (
        file(f"a-1-{tag}.whl") for tag in ("py3-none-any", "cp311-cp311-linux_x86_64", "cp39-cp39-win32")
    )
    later = file("a-2-py3-none-any.whl", "2")
    assert best_wheels([any_, own, other, file("a-1.tar.gz"), later], tags) == [own, later]
    assert best_wheels([other], tags) == []


def test_the_tags_are_those_of_this_machine() -> None:
    assert set(tags_here(PYTHON)) == set(sys_tags())
    assert Tag("cp312", "cp312", next(iter(sys_tags())).platform) in tags_here("3.12")


def test_an_index_that_the_user_names_is_asked_first() -> None:
    with Server() as server:
        wheel = server.url("/x/a-1-py3-none-any.whl")
        page = f'<a href="{wheel}">a</a>'.encode()
        server.serve("/simple/a/", Answer(page, headers={"Content-Type": "text/html"}))
        wanted = file("a-1-py3-none-any.whl")
        assert locations(wanted, {"CPUWHEELS_PYPI_INDEX": server.url("/simple/")}) == (wheel, wanted.url)
    assert locations(wanted, {}) == (wanted.url,)
    assert locations(wanted, {"CPUWHEELS_PYPI_INDEX": f"{DEAD}/simple"}) == (wanted.url,)


def test_uv_finds_them_in_a_folder_in_a_locked_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    wheel = write_wheel(tmp_path, "a", "1")
    lock = tmp_path / "pylock.x.toml"
    store, reporter = Store(tmp_path / "store"), Reporter("x")
    with Server() as server:
        url = server.serve(f"/{wheel.name}", Answer(wheel.read_bytes()))
        wheels = f'[{{url = "{url}", hashes = {{sha256 = "{sha256(wheel)}"}}}}]'
        lock.write_text(f'[[packages]]\nname = "a"\nversion = "1"\nwheels = {wheels}\n')
        with wheels_place(lock, PYTHON, store=store, reporter=reporter) as options:
            assert options == []

        allowed = listed("x", python_files(locked_files(lock), "build-tools"))
        with (
            watched(Requests(tmp_path / FILE, allowed)),
            wheels_place(lock, PYTHON, store=store, reporter=reporter) as options,
        ):
            assert options[:2] == ["--no-index", "--find-links"]
            assert [path.name for path in Path(options[2]).iterdir()] == [wheel.name]
        assert server.asked == [f"/{wheel.name}"]
    # An index of this machine is asked by uv itself.
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "index").as_uri())
    with (
        watched(Requests(tmp_path / FILE, allowed)),
        wheels_place(lock, PYTHON, store=store, reporter=reporter) as options,
    ):
        assert options == []
