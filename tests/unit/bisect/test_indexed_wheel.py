"""A commit's wheel from an index."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from cpuwheels.bisect.indexed_wheel import wheel_from_index
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import DigestMismatchError, DownloadError
from loopback import Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from loopback import Server

COMMIT = "c" * 40
PAGE = f"/{COMMIT}/cpu/vllm/"
NAME = "vllm-0.32.1.dev5+gccc.cpu-cp38-abi3-manylinux_2_28_x86_64.whl"
OTHERS = [
    "vllm-0.32.1.dev5+gccc.cpu-cp38-abi3-manylinux_2_28_aarch64.whl",
    "vllm-0.32.1.dev5+gccc.cpu-cp38-abi3-macosx_14_0_arm64.whl",
    "vllm-0.32.1.dev5.tar.gz",
    "other-1.0-py3-none-manylinux_2_28_x86_64.whl",
]
SHA256 = hashlib.sha256(b"wheel").hexdigest()


@pytest.fixture
def ask(
    server: Server, store: Store, reporter: Reporter, project_root: Path, tmp_path: Path
) -> Callable[[], Path | None]:
    target = load_matrix(project_root).target("x86")
    server.serve(f"/files/{NAME}", Answer(b"wheel"))
    return lambda: wheel_from_index(server.url("/"), COMMIT, target, tmp_path / "got", store=store, reporter=reporter)


def html(*links: str) -> Answer:
    text = "".join(f'<a href="{link}">x</a>' for link in links)
    return Answer(text.encode(), headers={"Content-Type": "text/html"})


def test_the_wheel_of_the_machine_is_taken_and_checked(
    server: Server, ask: Callable[[], Path | None], tmp_path: Path
) -> None:
    server.serve(PAGE, html(*OTHERS, f"../../../files/{NAME.replace('+', '%2B')}#sha256={SHA256}"))
    server.serve(f"/files/{NAME.replace('+', '%2B')}", Answer(b"wheel"))
    earlier = tmp_path / "got" / "vllm-0.32.1.dev4+gbbb.cpu-cp38-abi3-manylinux_2_28_x86_64.whl"
    earlier.parent.mkdir()
    earlier.write_bytes(b"another")
    found = ask()
    assert found is not None
    assert (found.name, found.read_bytes()) == (NAME, b"wheel")
    assert list((tmp_path / "got").iterdir()) == [found]


def test_json_is_read_too(server: Server, ask: Callable[[], Path | None]) -> None:
    file = {"filename": NAME, "url": f"/files/{NAME}", "hashes": {"sha256": SHA256}}
    kind = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    server.serve(PAGE, Answer(json.dumps({"files": [file]}).encode(), headers=kind))
    assert ask() is not None


@pytest.mark.parametrize("links", [[], OTHERS], ids=["empty", "others"])
def test_an_index_without_it(server: Server, ask: Callable[[], Path | None], links: list[str]) -> None:
    server.serve(PAGE, html(*links))
    assert ask() is None


def test_a_commit_that_the_index_does_not_know(server: Server, ask: Callable[[], Path | None]) -> None:
    server.serve(PAGE, Answer(b"not found", status=404))
    assert ask() is None


def test_without_a_digest_it_is_not_taken(server: Server, ask: Callable[[], Path | None], reporter: Reporter) -> None:
    server.serve(PAGE, html(f"/files/{NAME}"))
    assert ask() is None
    assert "gives no sha256" in reporter.announcements[0]


def test_other_bytes_stop_the_run(server: Server, ask: Callable[[], Path | None], tmp_path: Path) -> None:
    server.serve(PAGE, html(f"/files/{NAME}#sha256={'0' * 64}"))
    with pytest.raises(DigestMismatchError):
        ask()
    assert not (tmp_path / "got").exists()


def test_an_index_that_does_not_answer(server: Server, ask: Callable[[], Path | None]) -> None:
    server.serve(PAGE, Answer(b"", status=500))
    with pytest.raises(DownloadError, match="cannot read the package index") as raised:
        ask()
    assert "--index" in raised.value.next_step
