"""Pages of package indexes, in both of their formats."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from cpuwheels.core.errors import DownloadError
from cpuwheels.fetch.file_names import is_file_name
from cpuwheels.fetch.simple_index import IndexFile, fragment_digest, index_files
from loopback import DEAD, Answer, Server

DIGEST = "a" * 64
NAME = "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"
HTML = (
    f'<a href="files/{NAME.replace("+", "%2B")}#sha256={DIGEST}">x</a><a name="no file"></a><a href="/other.whl">y</a>'
)
FILES = [
    {"filename": NAME, "url": f"files/{NAME.replace('+', '%2B')}#sha256={'b' * 64}", "hashes": {"sha256": DIGEST}},
    {"filename": "other.whl", "url": "/other.whl", "hashes": {}},
]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(HTML.encode(), headers={"Content-Type": "text/html; charset=utf-8"}),
        Answer(json.dumps({"files": FILES}).encode(), headers={"Content-Type": "application/vnd.pypi.simple.v1+json"}),
    ],
)
def test_files_have_names_addresses_and_digests(server: Server, answer: Answer) -> None:
    page = server.serve("/simple/vllm/", answer)
    assert index_files(page, setting="--index") == [
        IndexFile(NAME, f"{page}files/{NAME.replace('+', '%2B')}", DIGEST),
        IndexFile("other.whl", server.url("/other.whl"), None),
    ]


def test_addresses_are_relative_to_where_the_page_is_in_the_end(server: Server) -> None:
    server.serve("/new/vllm/", Answer(b'<a href="x.whl">x</a>', headers={"Content-Type": "text/html"}))
    page = server.serve("/old/vllm/", Answer(status=301, headers={"Location": "/new/vllm/"}))
    assert index_files(page, setting="--index") == [IndexFile("x.whl", server.url("/new/vllm/x.whl"), None)]


def test_a_project_that_is_not_there_is_no_error(server: Server) -> None:
    assert index_files(server.url("/simple/none/"), setting="--index") is None


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500),
        Answer(b"{", headers={"Content-Type": "application/json"}),
        Answer(b"[]", headers={"Content-Type": "application/json"}),
        Answer(b'{"files": [{"filename": "x"}]}', headers={"Content-Type": "application/json"}),
        None,
    ],
)
def test_what_is_no_page_is_told_with_the_setting(server: Server, answer: Answer | None) -> None:
    page = server.serve("/simple/vllm/", answer) if answer else f"{DEAD}/simple/vllm/"
    with pytest.raises(DownloadError, match="cannot read the package index") as raised:
        index_files(page, setting="UV_DEFAULT_INDEX")
    assert raised.value.where == page
    assert "UV_DEFAULT_INDEX" in raised.value.next_step


@pytest.mark.parametrize(
    ("url", "digest"),
    [
        (f"https://a/b.whl#sha256={DIGEST}", DIGEST),
        (f"https://a/b.whl#sha256={DIGEST}0", None),
        ("https://a/b.whl#md5=0", None),
        ("https://a/b.whl", None),
    ],
)
def test_a_fragment_says_the_digest(url: str, digest: str | None) -> None:
    assert fragment_digest(url) == digest


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([NAME, DIGEST, "../x", "file:///x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["files", "filename", "url", "hashes", "sha256"]), inner, max_size=4)
    ),
    max_leaves=12,
)
PAGES = st.one_of(
    st.binary(max_size=300),
    JSON_VALUES.map(lambda value: json.dumps({"files": value}).encode()),
    st.lists(st.sampled_from(["<a ", "href=", '"', "x.whl", "%2F", "..", ">", "<!--", "#sha256=", DIGEST, "&#47;"]))
    .map("".join)
    .map(str.encode),
)  # fmt: skip
TYPES = ["text/html", "application/json", "text/html; charset=hex", "text/html; charset=latin-1", "x/y; charset=", ""]


@pytest.fixture(scope="module")
def one_server() -> Iterator[Server]:
    with Server() as running:
        yield running


@settings(max_examples=150)
@given(PAGES, st.sampled_from(TYPES))
def test_whatever_the_page_there_are_files_or_the_one_error(one_server: Server, body: bytes, kind: str) -> None:
    page = one_server.serve("/simple/vllm/", Answer(body, headers={"Content-Type": kind}))
    files: list[IndexFile] = []
    with contextlib.suppress(DownloadError):
        files = index_files(page, setting="--index") or []
    for file in files:
        assert is_file_name(file.name)
        assert file.url.startswith("http://")
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
