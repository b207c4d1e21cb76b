"""Addresses of repositories, and what killed commands leave behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import SourceError
from cpuwheels.core.usage import GIT, counted
from cpuwheels.fetch.git import count_objects, place_of, remove_leftovers

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/vllm-project/vllm",
        "http://a.b/c",
        "HTTPS://a.b/c",
        "ssh://git@a.b:22/c",
        "git@a.b:c/d.git",
        "git://a.b/c",
        "file:///srv/vllm.git",
        "/srv/gone.git",
        "a b",
    ],
)
def test_addresses(address: str) -> None:
    assert place_of(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "--upload-pack=x",
        "-x",
        "ext::sh",
        "fd::1",
        "file::/x",
        "https::https://a.b",
        "ftp://a.b/c",
        "x://y",
        "",
        " ",
        "a\nb",
    ],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(SourceError) as raised:
        place_of(address)
    assert raised.value.next_step


def test_a_folder_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "--upload-pack=x").mkdir()
    monkeypatch.chdir(tmp_path)
    assert place_of("--upload-pack=x") == str(tmp_path / "--upload-pack=x")


@pytest.mark.parametrize(
    ("repository", "fetched"),
    [("https://a.org/x", True), ("git@a.org:x", True), ("file:///srv/x", False), ("/srv/x", False)],
)
def test_the_objects_that_are_fetched_are_counted(tmp_path: Path, repository: str, fetched: bool) -> None:
    (tmp_path / "objects" / "pack").mkdir(parents=True)
    (tmp_path / "objects" / "pack" / "old.pack").write_bytes(b"old")
    with counted() as usage:
        count_objects(tmp_path, "/srv/tried-before")
        count_objects(tmp_path, repository)
        (tmp_path / "objects" / "pack" / "new.pack").write_bytes(b"new one")
        (tmp_path / "objects" / "pack" / "new.idx").write_bytes(b"index")
        (tmp_path / "config").write_bytes(b"settings")
    assert usage.fetched().size == ({GIT: 7} if fetched else {})
    assert usage.stored().keys() == {"git"}


def test_leftovers(tmp_path: Path) -> None:
    for name in ("config", "config.lock", "refs/heads/a.lock", "refs/heads/a", "objects/pack/tmp_pack_1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "objects" / "pack" / "tmp_pack_old").touch()
    os.utime(tmp_path / "objects" / "pack" / "tmp_pack_old", (1, 1))
    remove_leftovers(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["config", "objects/pack/tmp_pack_1", "refs/heads/a"]
