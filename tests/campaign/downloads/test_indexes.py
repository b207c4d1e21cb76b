"""Attacks by a package index, and by a server that hands out parts of files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import DigestMismatchError, DownloadError
from cpuwheels.core.store import Store
from cpuwheels.fetch.download import fetch
from cpuwheels.fetch.http_range import NoRangesError, remote_file
from cpuwheels.fetch.simple_index import index_files
from cpuwheels.fetch.vllm_wheels import fetch_wheel, indexed_wheels
from kernel_request import TARGET
from loopback import Answer, Server
from pinned_file import GOOD, SHA256, SHORT, pinned
from raw_server import RawServer, drip, head

WHEEL = "vllm-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl"
JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
HTML = {"Content-Type": "text/html"}


def page(server: Server, **file: Any) -> str:
    """Serve an index with one file of which some facts are chosen."""
    server.serve("/f", Answer(GOOD))
    facts = {"filename": WHEEL, "url": server.url("/f"), "hashes": {"sha256": SHA256}} | file
    return server.serve("/simple/vllm/", Answer(json.dumps({"files": [facts]}).encode(), headers=JSON))


def fetched(url: str, store: Store, reporter: Reporter) -> list[Path]:
    """Fetch what an index offers, as ``--index`` and ``--kernels-from`` do."""
    return [
        fetch_wheel(file, store, reporter) for file in indexed_wheels(url, TARGET, reporter, setting="--index") or ()
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("..%2F..%2F..%2F.bashrc", id="39-slashes-behind-the-decoding"),
        pytest.param("%2E%2E", id="40-parent"),
        pytest.param("a%00.whl", id="41-nul"),
        pytest.param("..%5C..%5C.bashrc", id="42-backslash"),
        pytest.param("%2Fetc%2Fevil", id="43-absolute"),
        pytest.param(".part-evil", id="44-hidden"),
        pytest.param("a%1B%5B2J.whl", id="45-escape"),
        pytest.param("a" * 300, id="46-300-bytes"),
        pytest.param("a%E2%80%AEgpj.whl", id="47-direction"),
    ],
)
def test_name_in_a_url(server: Server, cache: Store, reporter: Reporter, untouched: None, name: str) -> None:
    del untouched
    url = server.serve(f"/{name}", Answer(GOOD))
    with pytest.raises(DownloadError) as raised:
        fetch(pinned(url), cache)
    assert raised.value.next_step
    assert str(raised.value).isascii()
    assert all(line.isprintable() for line in str(raised.value).splitlines())
    # By an index that gives the file a good name of its own, the URL's is of no account.
    [path] = fetched(page(server, url=url), cache, reporter)
    assert (path.name, path.read_bytes()) == (WHEEL, GOOD)


@pytest.mark.parametrize(
    ("facts", "offered"),
    [
        pytest.param({"filename": f"../../{WHEEL}"}, None, id="48-path-as-name"),
        pytest.param({"filename": "..\0"}, None, id="49-nul-as-name"),
        pytest.param({"filename": ["a"]}, None, id="50-list-as-name"),
        pytest.param({"url": "file:///etc/passwd"}, None, id="51-file-on-this-machine"),
        pytest.param({"hashes": {"sha256": "../../../evil/" + "a" * 50}}, 0, id="52-path-as-digest"),
        pytest.param({"hashes": {"sha256": "A" * 63}}, 0, id="53-short-digest"),
        pytest.param({"hashes": {"sha256": SHA256.upper()}}, 1, id="54-digest-in-capitals"),
        pytest.param({"filename": WHEEL.replace("0.32.0", "9.9.9")}, 1, id="55-name-unlike-the-url"),
    ],
)
def test_file_of_an_index(
    server: Server, cache: Store, reporter: Reporter, untouched: None, facts: dict[str, Any], offered: int | None
) -> None:
    del untouched
    url = page(server, **facts)
    if offered is None:
        with pytest.raises(DownloadError, match="cannot read the package index"):
            fetched(url, cache, reporter)
        return
    paths = fetched(url, cache, reporter)
    assert [(path.name, path.read_bytes()) for path in paths] == [(facts.get("filename", WHEEL), GOOD)] * offered


def test_56_digest_of_other_bytes(server: Server, cache: Store, reporter: Reporter, untouched: None) -> None:
    del untouched
    with pytest.raises(DigestMismatchError):
        fetched(page(server, hashes={"sha256": "a" * 64}), cache, reporter)


ANCHOR = f'<a href="{WHEEL}#sha256={SHA256}">x</a>'


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(json.dumps({"files": [{"filename": WHEEL, "url": "x"}]})[:-9].encode(), JSON, id="57-cut-json"),
        pytest.param(f"<html><body>{ANCHOR}{ANCHOR[:40]}".encode(), HTML, id="58-cut-html"),
        pytest.param(b"[" * 200_000, JSON, id="59-deep-json"),
        pytest.param(b'{"files": [{"filename": "a", "url": "b", "hashes": 7}]}', JSON, id="60-number-as-hashes"),
        pytest.param(b'{"files": ' + b"9" * 5000 + b"}", JSON, id="61-5000-digits"),
        pytest.param(b"\xff\xfe{", JSON, id="62-no-utf-8"),
        pytest.param(b"<html>" + b"<a " * 1_000_000, HTML, id="79-anchors-that-do-not-end"),
        pytest.param(b"\x1f\x8b" * 9, HTML | {"Content-Encoding": "gzip"}, id="63-compressed-all-the-same"),
    ],
)
def test_bad_page(server: Server, body: bytes, headers: dict[str, str]) -> None:
    url = server.serve("/simple/vllm/", Answer(body, headers=headers))
    with pytest.raises(DownloadError, match="cannot read the package index") as raised:
        index_files(url, setting="--index")
    assert "--index" in raised.value.next_step


@pytest.mark.parametrize(
    "charset",
    [
        pytest.param("hex", id="64-charset-hex"),
        pytest.param("zlib", id="65-charset-zlib"),
        pytest.param("unicode_escape", id="66-charset-unicode-escape"),
        pytest.param("undefined", id="67-charset-undefined"),
    ],
)
def test_charset_that_is_none(server: Server, charset: str) -> None:
    answer = Answer(ANCHOR.encode(), headers={"Content-Type": f"text/html; charset={charset}"})
    files = index_files(server.serve("/simple/vllm/", answer), setting="--index")
    assert [(file.name, file.sha256) for file in files or ()] == [(WHEEL, SHA256)]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda _, send: (send(head("Content-Type: text/html")), drip(send)), id="68-drip"),
        pytest.param(lambda _, send: (send(head("Content-Length: 99999999999")), drip(send)), id="69-huge"),
    ],
)
def test_index_without_end(answer: Callable[..., None], request: pytest.FixtureRequest) -> None:
    message = "more than 16777216 bytes" if "huge" in request.node.name else "too slow"
    with RawServer(answer) as server, pytest.raises(DownloadError, match=message):
        index_files(server.url("/simple/vllm/"), setting="--index", patience=SHORT)


BODY = bytes(range(256)) * 8192


PART = 1 << 18


@pytest.mark.parametrize(
    ("told", "size"),
    [
        pytest.param(f"bytes 5-{PART + 4}/{len(BODY)}", PART, id="70-other-place"),
        pytest.param(f"bytes 0-{PART - 1}/{len(BODY) + 9}", PART, id="71-other-size"),
        pytest.param(f"bytes 0-{PART - 1}/{len(BODY)}", PART - 1, id="72-fewer-bytes"),
        pytest.param(f"bytes 0-{PART - 1}/{len(BODY)}", PART + (1 << 20), id="73-more-bytes"),
        pytest.param(f"bytes {PART - 1}-0/{len(BODY)}", PART, id="74-backwards"),
    ],
)
def test_content_range_that_lies(told: str, size: int) -> None:
    """In the second answer, since the first is the file's end, by which its size is known."""
    tail = len(BODY) - (1 << 20)
    first = f"bytes {tail}-{len(BODY) - 1}/{len(BODY)}", BODY[tail:]
    answers = iter([first, (told, BODY[:size].ljust(size, b"x"))])

    def answer(_path: str, send: Callable[[bytes], None]) -> None:
        shown, data = next(answers)
        send(head(f"Content-Range: {shown}", f"Content-Length: {len(data)}", status="206 Partial Content") + data)

    with RawServer(answer) as server, remote_file(server.url("/a.whl"), SHORT) as stream:
        assert stream.seek(0) == 0
        with pytest.raises(DownloadError, match=r"other bytes|more or fewer|now has"):
            stream.read(PART)
        assert len(server.asked) == 2


@pytest.mark.parametrize(
    "told",
    [
        pytest.param("bytes 0-9/*", id="75-size-unknown"),
        pytest.param(f"bytes 0-{'9' * 5000}/{'9' * 5000}", id="76-5000-digits"),
        pytest.param("", id="77-none"),
    ],
)
def test_content_range_that_is_none(told: str) -> None:
    answer = head(f"Content-Range: {told}", "Content-Length: 10", status="206 Partial Content") + b"x" * 10
    with RawServer(lambda _, send: send(answer)) as server, pytest.raises(NoRangesError):
        remote_file(server.url("/a.whl"), SHORT)


def test_78_many_files(server: Server) -> None:
    digest = hashlib.sha256(GOOD).hexdigest()
    many = b"".join(f'<a href="{n}.whl#sha256={digest}">x</a>'.encode() for n in range(20_000))
    files = index_files(server.serve("/simple/vllm/", Answer(many, headers=HTML)), setting="--index")
    assert len(files or ()) == 20_000
