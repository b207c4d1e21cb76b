"""vLLM's wheels for a target among the files of an index."""

from __future__ import annotations

import hashlib
import io

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import DigestMismatchError
from cpuwheels.core.store import Store
from cpuwheels.fetch.simple_index import IndexFile
from cpuwheels.fetch.vllm_wheels import fetch_wheel, indexed_wheels, wheel_version
from kernel_request import TARGET
from loopback import Answer, Server

TAG = "cp38-abi3-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (f"vllm-0.32.0+cpu-{TAG}", "0.32.0+cpu"),
        (f"other-0.32.0-{TAG}", None),
        ("vllm-0.32.0-cp38-abi3-manylinux_2_28_aarch64.whl", None),
        ("vllm-0.32.0-cp38-abi3-macosx_11_0_x86_64.whl", None),
        ("vllm-0.32.0-py3-none-any.whl", None),
        ("vllm-0.32.0.tar.gz", None),
    ],
)
def test_only_wheels_of_vllm_for_the_target_have_a_version(name: str, version: str | None) -> None:
    found = wheel_version(name, TARGET)
    assert (str(found) if found else None) == version


def test_the_newest_comes_first_and_none_without_a_digest(
    server: Server, reporter: Reporter, story: io.StringIO
) -> None:
    versions = {"0.9.0": True, "0.32.0": True, "0.33.0": False, "0.32.1.dev1": True}
    links = (
        f'<a href="vllm-{version}-{TAG}{"#sha256=" + "a" * 64 if pinned else ""}">x</a>'
        for version, pinned in versions.items()
    )
    page = server.serve("/vllm/", Answer("".join(links).encode(), headers={"Content-Type": "text/html"}))
    found = indexed_wheels(page, TARGET, reporter, setting="--index")
    assert found is not None
    assert [file.name for file in found] == [f"vllm-{version}-{TAG}" for version in ("0.32.1.dev1", "0.32.0", "0.9.0")]
    assert f"no sha256 for vllm-0.33.0-{TAG}" in story.getvalue()
    assert indexed_wheels(server.url("/none/"), TARGET, reporter, setting="--index") is None


def test_a_wheel_is_fetched_once_and_only_with_its_digest(server: Server, store: Store, reporter: Reporter) -> None:
    url = server.serve("/x.whl", Answer(b"wheel"))
    file = IndexFile("x.whl", url, hashlib.sha256(b"wheel").hexdigest())
    assert fetch_wheel(file, store, reporter).read_bytes() == b"wheel"
    assert fetch_wheel(file, store, reporter).name == "x.whl"
    assert server.asked == ["/x.whl"]
    with pytest.raises(DigestMismatchError):
        fetch_wheel(IndexFile("x.whl", url, "0" * 64), store, reporter)
