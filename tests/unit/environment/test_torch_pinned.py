"""A pinned wheel of torch fetched from one place, where uv gets no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuwheels.config.downloads import Download
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store
from cpuwheels.environment.torch_index import TorchOffer
from cpuwheels.environment.torch_pinned import place_options
from cpuwheels.fetch.requests import FILE, Requests, listed, watched
from loopback import DEAD, Answer, Server
from sample_source import sha256
from small_wheels import write_wheel


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def options(offer: TorchOffer, digest: str, folder: Path) -> tuple[list[str], str]:
    return place_options(offer, [digest], store=Store(folder / "store"), reporter=Reporter("x"))


def locked(folder: Path, digest: str, page: str) -> Requests:
    row = Download(stage="torch", name="torch", digest={"sha256": digest}, page=page)
    return Requests(folder / FILE, listed("the list", [row]))


def test_where_a_place_lists_torch() -> None:
    assert TorchOffer("index", "https://a.org/cpu/", "x").page == "https://a.org/cpu/torch/"
    assert TorchOffer("find-links", "https://a.org/links", "x").page == "https://a.org/links"
    assert TorchOffer("find-links", "/srv/wheels", "x").page == ""
    assert TorchOffer("index", "file:///srv/simple", "x").page == ""


def test_in_a_locked_run_the_wheel_with_the_pinned_digest_is_fetched(server: Server, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "torch", "2.13.0")
    digest, offer = sha256(wheel), TorchOffer("index", server.url("/cpu"), "matrix.yaml")
    other = server.url("/files/torch-2.13.0-cp310-none-any.whl")
    url = server.serve(f"/files/{wheel.name}", Answer(wheel.read_bytes()))
    page = f'<a href="{other}#sha256={"1" * 64}">o</a><a href="{url}#sha256={digest}">w</a>'
    server.serve("/cpu/torch/", Answer(page.encode(), headers={"Content-Type": "text/html"}))
    assert options(offer, digest, tmp_path) == (offer.uv_options(), "")
    assert server.asked == []
    with watched(locked(tmp_path, digest, offer.page)):
        (first, second, folder), fault = options(offer, digest, tmp_path)
        assert options(offer, digest, tmp_path)[1] == ""
    assert (first, second, fault) == ("--no-index", "--find-links", "")
    assert (Path(folder) / wheel.name).read_bytes() == wheel.read_bytes()
    assert server.asked.count(f"/files/{wheel.name}") == 1


def test_why_a_place_cannot_serve_it(server: Server, tmp_path: Path) -> None:
    offer = TorchOffer("index", server.url("/cpu"), "matrix.yaml")
    server.serve("/cpu/torch/", Answer(b"<html></html>", headers={"Content-Type": "text/html"}))
    dead = TorchOffer("index", f"{DEAD}/cpu", "matrix.yaml")
    with watched(locked(tmp_path, "0" * 64, offer.page)):
        assert options(offer, "0" * 64, tmp_path) == ([], "it has no wheel with the pinned digest")
    with watched(locked(tmp_path, "0" * 64, dead.page)):
        assert "cannot read the package index" in options(dead, "0" * 64, tmp_path)[1]


def test_a_folder_of_this_machine_is_left_to_uv(tmp_path: Path) -> None:
    offer = TorchOffer("find-links", str(tmp_path), "PIP_FIND_LINKS")
    with watched(locked(tmp_path, "0" * 64, "https://a.org/torch/")):
        assert options(offer, "0" * 64, tmp_path) == (offer.uv_options(), "")
