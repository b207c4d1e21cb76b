"""Readers of what others may have written, against texts and archives that hypothesis makes up.

Whatever it is given, a reader returns or raises its one error, soon, and writes nothing elsewhere. The quick test of
each reader tries the same few hundred examples every time; the long one, in `nox -s soak`, tries others.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import time
import tomllib
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bad_tars import deb_bytes, entry, folder, hard_link, link, pax, tar_bytes
from bad_zips import Member, good, write_zip
from cpuwheels.attestation.keys import key_of
from cpuwheels.audit.licences import NOTE, licence_faults
from cpuwheels.audit.unwind_table import read_functions
from cpuwheels.bisect.git_log import replayed
from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.core.elf import exported, linkable, read_elf, read_needed, sections
from cpuwheels.core.errors import (
    BisectError,
    DownloadError,
    MalformedDataError,
    MatrixError,
    PublishError,
    SourceError,
    ToolchainError,
    UnsafeArchiveError,
    UnsuitableSourceError,
    WheelError,
)
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.core.limits import ArchiveLimits
from cpuwheels.core.models import load_yaml
from cpuwheels.core.parse import parse_json, parse_toml, parse_yaml
from cpuwheels.core.sealed_entry import MANIFEST, check_entry
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.fetch.debian.deb import read_member, unpack_deb
from cpuwheels.fetch.debian.dependencies import read_index
from cpuwheels.fetch.simple_index import Page, index_files
from cpuwheels.fetch.tarball import unpack_tar
from cpuwheels.index.bucket import Folder
from cpuwheels.index.lock import companion_lock
from cpuwheels.index.publish import finish
from cpuwheels.index.reading import read_entries
from cpuwheels.index.rebuilders.known import KnownRebuilder
from cpuwheels.index.rebuilders.statements import read_kept
from cpuwheels.index.wheel_file import read_wheel
from cpuwheels.kernels.manifest import FILE
from cpuwheels.kernels.memory.ledger import read_records
from cpuwheels.pipeline.provenance import read_note
from cpuwheels.pipeline.reuse.donor import read_manifest
from cpuwheels.rebuild.site.listing import read_listing
from cpuwheels.source.upstream_pins import read_pins
from cpuwheels.wheel.core_metadata import read_entry_points, read_project
from elf_writer import Elf
from index_entries import entry as index_entry
from layout import TESTS
from untouched import snapshot
from wheel_writer import with_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn

KEY = b"""-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
"""
"""Of the first test in RFC 8032."""

KNOWN = KnownRebuilder("one", "https://one.example.org", (key_of(KEY, "here"),))

EXAMPLES = int(os.environ.get("READERS_FUZZ_EXAMPLES", "10000"))
"""Of each reader in the long test."""

SECONDS = 5.0
"""That any example may take; they are small."""

LIMITS = ArchiveLimits(members=200, size=4 << 20, member=2 << 20, table=1 << 18)
WHEEL, INFO = "vllm-1-py3-none-any.whl", "vllm-1.dist-info"
SEEDS: dict[str, list[str]] = tomllib.loads((TESTS / "fuzz" / "seeds.toml").read_text())


@dataclass(frozen=True)
class Reader:
    """A reader and what it starts from.

    Attributes:
        read: Told the bytes and an empty folder for itself.
        raises: Its one error, or the few that its function names.
        seeds: What is changed to make examples.
        pack: Makes what is read out of a changed seed, so that changes get past a checksum.
    """

    read: Callable[[bytes, Path], object]
    raises: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]
    pack: Callable[[bytes], bytes] = bytes


def written(data: bytes, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return place


def read_zip(data: bytes, here: Path) -> None:
    with open_zip(written(data, here / "a.whl"), limits=LIMITS) as archive:
        archive.extract(here / "out")


def read_tar(data: bytes, here: Path) -> None:
    unpack_tar(written(data, here / "a-1.tar.gz"), here / "out", LIMITS)


def read_deb(data: bytes, here: Path) -> None:
    package = written(data, here / "a.deb")
    unpack_deb(package, here / "out", limits=LIMITS)
    read_member(package, "usr/a", 1000)


def read_library(data: bytes, _: Path) -> None:
    for read in (read_elf, read_needed, partial(exported, names=["a", "printf"]), linkable, sections, read_functions):
        with suppress(ValueError):
            read(io.BytesIO(data))


def read_manifest_of_an_entry(data: bytes, here: Path) -> None:
    (here / "sub").mkdir()
    written(b"a", here / "a")
    written(data, here / MANIFEST)
    assert all(isinstance(fault, str) for fault in check_entry(here))


def read_page(data: bytes, _: Path, *, is_json: bool) -> None:
    text = data.decode(errors="replace")
    page = Page(text, "https://example.org/simple/vllm/", is_json)
    with patch("cpuwheels.fetch.simple_index.read_page", lambda *_, **__: page):
        for file in index_files(page.url, setting="X") or []:
            assert "/" not in file.name
            assert file.name not in {"", ".", ".."}
            assert file.url.startswith(("https://", "http://"))


def read_published(data: bytes, here: Path, *, member: str) -> None:
    """Read a wheel of which one member is made up."""
    members = {
        "vllm/__init__.py": b"1",
        f"{INFO}/METADATA": SEEDS["metadata"][0].encode(),
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        member: data,
    }
    whole = members if member.endswith("RECORD") else with_record(members, INFO)
    wheel = written(write_zip([Member(name, content) for name, content in whole.items()]), here / WHEEL)
    with suppress(PublishError):
        read_wheel(wheel)
    with suppress(ValueError):
        read_note(wheel)
    with zipfile.ZipFile(wheel) as archive:
        assert all(isinstance(fault, str) for fault in licence_faults(archive, []))


def read_made_from(data: bytes, here: Path) -> None:
    wheel = written(write_zip([Member(f"{INFO}/{FILE}", data)]), here / WHEEL)
    with wheel.open("rb") as stream:
        read_manifest(stream)


def read_lock(data: bytes, here: Path) -> None:
    written(data, here / "pylock.toml")
    companion_lock(here / WHEEL, index_entry(filename=WHEEL))


def read_index_of_wheels(data: bytes, here: Path) -> None:
    written(data, here / "publishing.json")
    written(data, here / "removing.json")
    written(data, here / "nightly/cpu/vllm/index.v1.json")
    bucket = Folder(here)
    for read in (lambda: read_entries(bucket, "nightly"), lambda: finish(bucket)):
        with suppress(PublishError):
            read()


def read_requirements(data: bytes, here: Path) -> None:
    written(data, here / "requirements" / "cpu.txt")
    read_pins(here, {"platform_machine": "x86_64"})


def texts(name: str) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in SEEDS[name])


TAR = tar_bytes(
    [
        *[folder("a-1"), entry("a-1/b", b"content"), link("a-1/c", "b"), hard_link("a-1/d", "a-1/b")],
        *[pax("a-1/e", b"x", mtime="1.5", comment="c"), entry("a-1/" + "n" * 120, b"long")],
    ]
)
DEB = tar_bytes(
    [folder("./usr"), entry("./usr/a", b"content"), link("./usr/b", "/usr/a"), hard_link("./usr/c", "./usr/a")]
)
LIBRARIES = tuple(
    Elf(
        soname="a.so",
        runpath="$ORIGIN",
        versions={"libc.so.6": {"GLIBC_2.2.5": "printf"}},
        exports=("a", "b"),
        loose=("x",),
        hash=kind,
    ).write()
    for kind in ("gnu", "sysv")
)


def as_deb(data: bytes) -> bytes:
    whole = deb_bytes([])
    start = whole.index(b"data.tar.xz")
    packed = lzma.compress(data, preset=0)
    head = f"{'data.tar.xz':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(packed):<10}`\n".encode()
    return whole[:start] + head + packed + b"\n" * (len(packed) % 2)


DOCUMENT = (MalformedDataError,)


def read_statements(data: bytes, here: Path) -> None:
    """Read the file of an index; one of its lines may be signed by somebody who is known."""
    counted, refused = read_kept(data, [KNOWN], index_entry(), str(here))
    assert not counted
    assert len(refused) == len(data.splitlines())


READERS: dict[str, Reader] = {
    "json": Reader(lambda data, _: parse_json(data, "here"), DOCUMENT, texts("json")),
    "toml": Reader(lambda data, _: parse_toml(data, "here"), DOCUMENT, texts("toml")),
    "yaml": Reader(lambda data, _: parse_yaml(data, "here"), DOCUMENT, texts("yaml")),
    "configuration": Reader(
        lambda data, here: load_yaml(written(data, here / "lock.yaml"), DebianLock), (MatrixError,), texts("yaml")
    ),
    "zip": Reader(read_zip, (UnsafeArchiveError,), (write_zip(good("vllm/a", "vllm/b", f"{INFO}/METADATA")),)),
    "tar": Reader(read_tar, (SourceError, UnsafeArchiveError), (TAR,), lambda data: gzip.compress(data, 1)),
    "tar packed": Reader(
        read_tar, (SourceError, UnsafeArchiveError), (gzip.compress(TAR), bz2.compress(TAR), lzma.compress(TAR))
    ),
    "deb": Reader(read_deb, (ToolchainError, UnsafeArchiveError), (DEB,), as_deb),
    "deb packed": Reader(read_deb, (ToolchainError, UnsafeArchiveError), (as_deb(DEB),)),
    "library": Reader(read_library, (), LIBRARIES),
    "manifest": Reader(read_manifest_of_an_entry, (), texts("manifest")),
    "kernel manifest": Reader(read_made_from, (ValueError,), texts("kernel-manifest")),
    "note": Reader(partial(read_published, member=f"{INFO}/{NOTE}"), (), texts("note")),
    "metadata": Reader(partial(read_published, member=f"{INFO}/METADATA"), (), texts("metadata")),
    "record": Reader(partial(read_published, member=f"{INFO}/RECORD"), (), texts("record")),
    "page as json": Reader(partial(read_page, is_json=True), (DownloadError,), texts("page-json")),
    "page as html": Reader(partial(read_page, is_json=False), (DownloadError,), texts("page-html")),
    "packages": Reader(
        lambda data, _: read_index("trixie", data.decode(errors="replace")), (ToolchainError,), texts("packages")
    ),
    "requirements": Reader(read_requirements, (UnsuitableSourceError,), texts("requirements")),
    "project": Reader(lambda data, _: read_project(data), (WheelError,), texts("project")),
    "entry points": Reader(
        lambda data, _: read_entry_points(data.decode(errors="replace")), (WheelError,), texts("entry-points")
    ),
    "lock": Reader(read_lock, (PublishError,), texts("lock")),
    "ledger": Reader(lambda data, here: read_records(written(data, here / "jobs.jsonl")), (), texts("ledger")),
    "bisection": Reader(lambda data, here: replayed(written(data, here / "log")), (BisectError,), texts("bisection")),
    "rebuilds": Reader(lambda data, _: read_listing(data, "here"), (MalformedDataError,), texts("rebuilds")),
    "statements of rebuilders": Reader(read_statements, (), texts("statements-of-rebuilders")),
    "index": Reader(read_index_of_wheels, (), (*texts("journal"), *texts("page-json"))),
}

WORDS = [
    *b"\" ' \\ / ../ /etc/ { } [ ] : , null true NaN -1 1e999 \\ud800 &a *a !! <!-- <a= %2f = ; == #".split(),
    *[b"\0", b"\xff", b"\n", b"\r", b"\t", b" ", b"\x80", bytes(4), b"\xff" * 4, b"\x7f\xff\xff\xff", b"9" * 30],
    "\N{GRINNING FACE}".encode(),
]


@st.composite
def changed(draw: DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """Return a seed with some bytes changed, taken out, repeated or put in; or, rarely, any bytes at all."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=200))
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 6))):
        at, size = draw(st.integers(0, len(data))), draw(st.integers(0, 12))
        how = draw(st.sampled_from(("bit", "byte", "word", "cut", "repeat", "end", "many")))
        if how == "bit" and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
        elif how == "byte":
            data = data[:at] + draw(st.binary(max_size=4)) + data[at + 1 :]
        elif how == "word":
            data = data[:at] + draw(st.sampled_from(WORDS)) + data[at + draw(st.integers(0, 1)) * size :]
        elif how == "cut":
            data = data[:at] + data[at + size :]
        elif how == "repeat":
            data = data[:at] + data[at : at + 40] * 2 + data[at + 40 :]
        elif how == "end":
            data = data[:at]
        else:
            data = data[:at] + draw(st.sampled_from(WORDS)) * draw(st.sampled_from((70, 3000))) + data[at:]
    return data


def try_reader(name: str, data: bytes, base: Path) -> None:
    """Give a reader some bytes, and check what comes of it."""
    reader, outside = READERS[name], base / "outside"
    here = outside / "here"
    remove_tree(here)
    here.mkdir(parents=True)
    before, began = snapshot(outside, here), time.monotonic()
    try:
        reader.read(reader.pack(data), here)
    except reader.raises as error:
        said = str(error)
    else:
        said = "read"
    assert said
    assert time.monotonic() - began < SECONDS
    assert snapshot(outside, here) == before


HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def fuzz(name: str, base: Path, examples: int, *, same: bool) -> None:
    """Try a reader with many examples."""
    (base / "outside").mkdir()
    (base / "outside" / "file").write_text("the user's")

    @settings(max_examples=examples, derandomize=same, database=None, deadline=None, suppress_health_check=HEALTH)
    @given(data=changed(READERS[name].seeds))
    def attempt(data: bytes) -> None:
        try_reader(name, data, base)

    attempt()


@pytest.mark.parametrize("name", READERS)
def test_a_reader(name: str, tmp_path: Path) -> None:
    fuzz(name, tmp_path, 150, same=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", READERS)
def test_a_reader_for_minutes(name: str, tmp_path: Path) -> None:
    fuzz(name, tmp_path, EXAMPLES, same=False)
