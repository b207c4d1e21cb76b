"""Tar archives are unpacked below the folder, or not at all."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from bad_tars import EPOCH, Entry, entry, folder, hard_link, link, pax, tar_bytes
from cpuwheels.core.compressed import DamagedError
from cpuwheels.core.limits import ArchiveLimits
from cpuwheels.core.links import link_fault, link_faults
from cpuwheels.core.tar_archive import Place, UnsafeMemberError, unpack

SMALL = ArchiveLimits(members=100, size=1 << 20, member=1 << 19, path=200, depth=8)

TREE = [
    folder("./"),
    folder("./a"),
    entry("./a/file", b"content"),
    entry("./a/run", b"#!/bin/sh\n", mode=0o755, mtime=EPOCH + 9),
    link("./first", "a/run"),
    hard_link("./second", "./a/file"),
    entry("not/announced/file", b"x"),
]


def names(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*"))


def unpack_bytes(data: bytes, out: Path, limits: ArchiveLimits = SMALL) -> int:
    return unpack(io.BytesIO(data), out, limits)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_what_honest_packers_write_is_unpacked(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    assert unpack_bytes(pack(tar_bytes(TREE)), tmp_path / "out") == EPOCH + 9
    out = tmp_path / "out"
    assert names(out) == ["a", "a/file", "a/run", "first", "not", "not/announced", "not/announced/file", "second"]
    assert (out / "first").readlink().as_posix() == "a/run"
    assert (out / "second").stat().st_ino == (out / "a/file").stat().st_ino
    assert (out / "a/run").stat().st_mode & 0o7777 == 0o755
    assert (out / "a/file").stat().st_mode & 0o7777 == 0o644
    assert (out / "a/run").stat().st_mtime == EPOCH + 9


def test_it_is_what_tarfile_unpacks(tmp_path: Path) -> None:
    """With its own filter, member by member, as before."""
    data = tar_bytes([*TREE, entry("odd", b"x", mode=0o6601), entry("b/c/d", b"y", mode=0o100)])
    unpack_bytes(data, tmp_path / "ours")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(tmp_path / "theirs", filter="data")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert names(ours) == names(theirs)
    for name in names(ours):
        if (ours / name).is_file():
            assert (ours / name).read_bytes() == (theirs / name).read_bytes()
            assert (ours / name).stat().st_mode == (theirs / name).stat().st_mode


def test_several_xz_streams_with_padding_are_one(tmp_path: Path) -> None:
    data = tar_bytes(TREE)
    packed = lzma.compress(data[:700]) + bytes(8) + lzma.compress(data[700:]) + bytes(4)
    unpack_bytes(packed, tmp_path)
    assert (tmp_path / "a/file").read_bytes() == b"content"


def test_members_can_be_placed_elsewhere_or_left_out(tmp_path: Path) -> None:
    def place(member: tarfile.TarInfo) -> Place | None:
        return Place(f"new/{member.name}") if "file" in member.name else None

    unpack(io.BytesIO(tar_bytes(TREE)), tmp_path, SMALL, place)
    assert names(tmp_path) == ["new", "new/a", "new/a/file", "new/not", "new/not/announced", "new/not/announced/file"]


def test_folders_that_are_there_are_used_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "out" / "a").symlink_to("../away")
    with pytest.raises(UnsafeMemberError, match="a is a link or a file, and a member lies below it"):
        unpack_bytes(tar_bytes(TREE), tmp_path / "out")
    assert names(tmp_path / "away") == []


def test_a_link_that_was_there_is_replaced_and_what_it_led_to_stays(tmp_path: Path) -> None:
    (tmp_path / "out" / "a").mkdir(parents=True)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out" / "a" / "file").symlink_to("../../mine")
    unpack_bytes(tar_bytes(TREE), tmp_path / "out")
    assert (tmp_path / "out" / "a" / "file").read_text() == "content"
    assert (tmp_path / "mine").read_text() == "mine"


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_descriptors_are_closed(tmp_path: Path) -> None:
    before = open_files()
    unpack_bytes(tar_bytes(TREE), tmp_path / "out")
    with pytest.raises(UnsafeMemberError):
        unpack_bytes(tar_bytes([*TREE, entry("a/../../evil")]), tmp_path / "out")
    assert open_files() == before


@pytest.mark.parametrize(
    ("links", "fault"),
    [
        ({"a": "b"}, None),
        ({"a": "../x"}, "a is a link that leads outside"),
        ({"d/a": "../x"}, None),
        ({"a": "/etc"}, "a is a link that leads outside"),
        ({"a": "b", "b": "a"}, "a is a link that leads in a circle"),
        ({"x/y/z": "../..", "a": "x/y/z/../b"}, "a is a link that leads outside"),
        ({"a": "d/../b", "d": "x/y"}, None),
        ({"a": "gone/../../b"}, "a is a link that leads outside"),
    ],
)
def test_links_are_followed_part_by_part(tmp_path: Path, links: dict[str, str], fault: str | None) -> None:
    planned = {tuple(name.split("/")): target for name, target in links.items()}
    assert link_fault(tmp_path, ("a",) if "a" in links else ("d", "a"), planned) == fault
    for name, target in links.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(target)
    found = list(link_faults(tmp_path))
    assert (fault in found) if fault else (found == [])


def mutated(data: bytes, changes: list[tuple[int, int]], cut: int) -> bytes:
    changed = bytearray(data)
    for place, value in changes:
        changed[place % len(data)] = value
    return bytes(changed[: len(changed) - cut])


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=5)
BASES = [tar_bytes(TREE), gzip.compress(tar_bytes(TREE)), lzma.compress(tar_bytes(TREE), preset=0)]


def check(data: bytes, root: Path) -> None:
    """Unpack into a fresh folder, and see that nothing lies or leads outside of it."""
    out = root / "deep" / "out"
    out.mkdir(parents=True, exist_ok=True)
    (root / "outside").write_text("before")
    message = ""
    try:
        unpack_bytes(data, out)
    except (UnsafeMemberError, DamagedError) as error:
        message = str(error)
    assert message.isprintable()
    assert sorted(path.name for path in root.iterdir()) == ["deep", "outside"]
    assert [path.name for path in (root / "deep").iterdir()] == ["out"]
    assert (root / "outside").read_text() == "before"
    assert list(link_faults(out)) == []
    assert sum(path.lstat().st_size for path in out.rglob("*") if path.is_file() and not path.is_symlink()) < 2 << 20


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(BASES), CHANGES, st.integers(0, 3000))
def test_whatever_the_bytes_there_is_a_result_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, base: bytes, changes: list[tuple[int, int]], cut: int
) -> None:
    check(mutated(base, changes, cut), tmp_path_factory.mktemp("fuzz"))


PARTS = st.sampled_from(["a", "b", "..", ".", "", "c\0", "\x1b", "\udcff", "x" * 300, ".cpuwheels-x"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
KINDS = [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"Z"]


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    kind = draw(st.sampled_from(KINDS))
    content = draw(st.binary(max_size=30)) if kind == tarfile.REGTYPE else b""
    made = entry(draw(PATHS) or "a", content, type=kind, linkname=draw(PATHS), mode=draw(st.integers(0, 0o7777)))
    headers = st.dictionaries(
        st.sampled_from(["mtime", "size", "uid", "path"]), st.sampled_from(["nan", "-1", "9" * 30, "a/b"])
    )
    made[0].pax_headers = draw(headers)
    return made


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(entries(), max_size=8))
def test_whatever_the_members(tmp_path_factory: pytest.TempPathFactory, members: list[Entry]) -> None:
    check(tar_bytes(members), tmp_path_factory.mktemp("fuzz"))


@given(st.binary(max_size=2000))
def test_whatever_it_is(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    check(data, tmp_path_factory.mktemp("fuzz"))
    check(b"\xfd7zXZ\0" + data, tmp_path_factory.mktemp("fuzz"))
    check(b"\x1f\x8b\x08\0" + data, tmp_path_factory.mktemp("fuzz"))


def test_a_member_of_a_global_header_is_judged(tmp_path: Path) -> None:
    with pytest.raises(UnsafeMemberError, match="time"):
        unpack_bytes(tar_bytes([pax("a", b"x", mtime="inf")]), tmp_path)
