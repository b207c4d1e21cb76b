"""A published index is read at its address, and nothing in it can be changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuwheels.core.errors import PublishError
from cpuwheels.index.address import open_for_reading
from cpuwheels.index.bucket import Folder
from cpuwheels.index.publish import publish
from cpuwheels.index.reading import read_entries
from cpuwheels.index.serve import IndexServer
from index_publications import Publication, publication
from running import running


@pytest.fixture
def one(tmp_path: Path) -> Publication:
    return publication(tmp_path / "dist")


@pytest.fixture
def address(tmp_path: Path, one: Publication) -> Iterator[str]:
    publish(Folder(tmp_path / "index"), one)
    with running(IndexServer(tmp_path / "index", 0)) as address:
        yield address


@pytest.mark.parametrize("end", ["", "/"])
def test_pages_and_wheels_are_read(address: str, one: Publication, end: str) -> None:
    index = open_for_reading(address + end)
    assert read_entries(index, "nightly") == [one.entry]
    assert read_entries(index, "f" * 40) == []
    assert index.read(f"files/{one.entry.sha256[:16]}/{one.entry.filename}") == one.wheel.read_bytes()


def test_nothing_is_changed(address: str, tmp_path: Path) -> None:
    index = open_for_reading(address)
    before = {path: path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()}
    for change in (
        lambda: index.write("a", b""),
        lambda: index.add("a", b""),
        lambda: index.remove("index.json"),
        index.names,
        index.alone,
    ):
        with pytest.raises(PublishError, match="only read"):
            change()
    assert {path: path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()} == before


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(PublishError, match="cannot read"):
        open_for_reading("http://127.0.0.1:9").read("index.json")


def test_a_password_in_its_address_is_not_said() -> None:
    assert open_for_reading("https://me:geheim@wheels.example.org/x").name == "https://wheels.example.org/x"


def test_a_folder_is_a_folder(tmp_path: Path) -> None:
    assert isinstance(open_for_reading(str(tmp_path)), Folder)
