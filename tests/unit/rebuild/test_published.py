"""A wheel of somebody else: a file, an address, or what an index has; and what lies next to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Target, load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CpuwheelsError, DigestMismatchError, RebuildError, UsageError
from cpuwheels.rebuild import published as module
from cpuwheels.rebuild.published import Published, get_published
from loopback import DEAD, Answer, Server
from published_wheels import digest_of, published_wheel


@pytest.fixture
def target(project_root: Path) -> Target:
    return load_matrix(project_root).target("x86")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return published_wheel(tmp_path / "built")


def get(text: str | Path, target: Target, tmp_path: Path, reporter: Reporter, index: str | None = None) -> Published:
    folder = tmp_path / "copy"
    folder.mkdir()
    return get_published(str(text), index, target, folder, reporter)


def serve(server: Server, wheel: Path, view: str = "0.32.0") -> str:
    """Serve a wheel as an index does, and return its digest."""
    digest, folder = digest_of(wheel), f"/files/{digest_of(wheel)[:16]}/"
    quoted = wheel.name.replace("+", "%2B")
    page = f'<html><body><a href="../../..{folder}{quoted}#sha256={digest}">{wheel.name}</a></body></html>'
    server.serve(f"/{view}/cpu/vllm/", Answer(page.encode(), headers={"Content-Type": "text/html"}))
    server.serve(f"{folder}{quoted}", Answer(wheel.read_bytes()))
    server.serve(
        f"{folder}{quoted}.provenance.json", Answer((wheel.parent / f"{wheel.name}.provenance.json").read_bytes())
    )
    return digest


def test_a_file_is_copied_with_what_lies_next_to_it(
    wheel: Path, target: Target, tmp_path: Path, reporter: Reporter
) -> None:
    found = get(wheel, target, tmp_path, reporter)
    assert found.wheel != wheel
    assert found.wheel.read_bytes() == wheel.read_bytes()
    assert (found.wheel.name, found.sha256) == (wheel.name, digest_of(wheel))
    assert found.about.statement
    assert not found.about.signed


@pytest.mark.parametrize("name", ["x-1-py3-none-any.whl", "vllm.whl", "vllm-1-py3-none-any.zip"])
def test_another_name_is_refused(name: str, wheel: Path, target: Target, tmp_path: Path, reporter: Reporter) -> None:
    with pytest.raises(RebuildError, match="is not a name for a wheel of vllm"):
        get(wheel.rename(wheel.with_name(name)), target, tmp_path, reporter)


def test_links_pipes_and_what_is_too_large_are_refused(
    wheel: Path, target: Target, tmp_path: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / wheel.name
    link.symlink_to(wheel)
    with pytest.raises(RebuildError, match="symbolic link"):
        get(link, target, tmp_path, reporter)
    link.unlink()
    os.mkfifo(link)
    with pytest.raises(RebuildError, match="not a regular file"):
        get_published(str(link), None, target, tmp_path / "copy", reporter)
    monkeypatch.setattr(module, "_LARGEST", 10)
    (tmp_path / "other").mkdir()
    with pytest.raises(RebuildError, match="it has more than"):
        get_published(str(wheel), None, target, tmp_path / "other", reporter)


def test_an_index_has_it_by_page_version_and_commit(
    wheel: Path, target: Target, tmp_path: Path, reporter: Reporter
) -> None:
    with Server() as server:
        digest = serve(server, wheel)
        serve(server, wheel, "1" * 40)
        for number, (text, index) in enumerate(
            [
                (server.url("/0.32.0/cpu"), None),
                ("0.32.0", server.url("/")),
                ("1" * 40, server.url("")),
                (server.url(f"/files/{digest[:16]}/{wheel.name.replace('+', '%2B')}"), None),
            ]
        ):
            (tmp_path / str(number)).mkdir()
            found = get_published(text, index, target, tmp_path / str(number), reporter)
            assert found.sha256 == digest
            assert found.about.statement
            assert found.about.envelope is None
            assert not found.about.attestations


def test_other_bytes_than_the_index_says_are_refused(
    wheel: Path, target: Target, tmp_path: Path, reporter: Reporter
) -> None:
    with Server() as server:
        digest = serve(server, wheel)
        server.serve(f"/files/{digest[:16]}/{wheel.name.replace('+', '%2B')}", Answer(b"other"))
        with pytest.raises(DigestMismatchError):
            get("0.32.0", target, tmp_path, reporter, server.url(""))


def test_a_server_that_fails_is_no_missing_statement(
    wheel: Path, target: Target, tmp_path: Path, reporter: Reporter
) -> None:
    with Server() as server:
        digest = serve(server, wheel)
        path = f"/files/{digest[:16]}/{wheel.name.replace('+', '%2B')}.provenance.json"
        server.serve(path, Answer(status=500))
        with pytest.raises(
            RebuildError, match="what is published next to the wheel cannot be fetched: HTTP status 500"
        ):
            get("0.32.0", target, tmp_path, reporter, server.url(""))


@pytest.mark.parametrize(
    ("text", "index", "why"),
    [
        ("main", "https://a.example", "neither a version nor"),
        ("../0.32.0", "https://a.example", "neither a version nor"),
        ("0.32.0", "file:///etc", "is no address"),
        ("0.32.0", "/srv/index", "is no address"),
    ],
)
def test_what_no_index_has_is_refused(
    text: str, index: str, why: str, target: Target, tmp_path: Path, reporter: Reporter
) -> None:
    with pytest.raises(UsageError, match=why):
        get(text, target, tmp_path, reporter, index)


def test_a_page_without_the_wheel_and_a_dead_server(target: Target, tmp_path: Path, reporter: Reporter) -> None:
    with Server() as server, pytest.raises(UsageError, match="lists no wheel of vllm for Linux x86_64"):
        get("0.32.0", target, tmp_path, reporter, server.url(""))
    with pytest.raises(CpuwheelsError, match="cannot read the package index"):
        get_published("0.32.0", DEAD, target, tmp_path / "copy", reporter)
