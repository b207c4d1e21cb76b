"""Archives are read as every other reader would read them, or not at all."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import tracemalloc
import zipfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from bad_zips import ENCRYPTED, STREAMED, UTF8, Member, deflate, good, overlapping, quoted, write_zip
from cpuwheels.core.errors import UnsafeArchiveError
from cpuwheels.core.limits import ArchiveLimits
from cpuwheels.core.zip_archive import open_zip

SMALL = ArchiveLimits(members=50, size=1 << 20, member=1 << 19, path=100, table=8192)


def read_all(data: bytes, *, members_too: bool = True) -> dict[str, bytes]:
    with open_zip(io.BytesIO(data), limits=SMALL, where="a.whl", members_too=members_too) as archive:
        return {name: archive.read(name) for name in archive.names}


class Pipe(io.BytesIO):
    """What zipfile cannot go back in, so that it writes sizes behind the members."""

    def seekable(self) -> bool:
        return False

    def seek(self, _offset: int, _whence: int = 0) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_python_writes_is_read(tmp_path: Path, method: int, streamed: bool) -> None:
    files = {"a/b.py": b"x = 1\n" * 100, "a/empty": b"", "a/big": random.Random(1).randbytes(400_000), "ü": b"u"}
    raw = Pipe() if streamed else io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as writer:
        writer.mkdir("a")
        for name, content in files.items():
            writer.writestr(name, content)
    path = tmp_path / "a.whl"
    path.write_bytes(raw.getvalue())
    assert read_all(path.read_bytes()) == files
    assert read_all(path.read_bytes(), members_too=False) == files
    with open_zip(path) as archive:
        archive.extract(tmp_path / "out")
        assert archive.digest("a/b.py") == hashlib.sha256(files["a/b.py"]).digest()
    assert {
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()
    } == set(files)


def test_zip64_is_read() -> None:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as writer, writer.open("a", "w", force_zip64=True) as member:
        member.write(b"text")
    assert read_all(raw.getvalue()) == {"a": b"text"}


def with_zip64_end(data: bytes, *, members: int | None = None, place: int = 0) -> bytes:
    """Return an archive with a zip64 record before its end, as those with 65,536 members have one."""
    number, _, size, start = struct.unpack("<2H2L", data[-14:-2])
    end = len(data) - 22
    true = number if members is None else members
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, true, true, size, start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end + place, 1)
    return data[:end] + record + locator + data[end:]


def test_a_zip64_end_is_read() -> None:
    assert list(read_all(with_zip64_end(write_zip(good("a", "b"))))) == ["a", "b"]


NO_MEMBER = [
    ("no archive", b"<html>sign in</html>" * 9, "no zip archive"),
    ("empty", b"", "no zip archive"),
    ("cut", write_zip(good("a", "b"))[:-9], "cut off"),
    ("comment", write_zip(good("a"), comment=b"x"), "something follows its end"),
    ("more behind", write_zip(good("a")) + b"x", "something follows its end"),
    ("before the end", write_zip(good("a"), tail=b"xxxx"), "does not end where"),
    ("prefix", b"#!/bin/sh\n" + write_zip(good("a")), "does not end where"),
    ("fewer claimed", write_zip(good("a", "b"), count=1), "lists 2 members and claims 1"),
    ("many members", write_zip(good(*map(str, range(51)))), "51 members"),
    (
        "many members claimed as few",
        write_zip(good(*(f"{n:060}" for n in range(90))), count=1),
        "in 8 KiB are the limit",
    ),
    ("zip64 that contradicts", with_zip64_end(write_zip(good("a", "b")), members=1), "contradicts its end"),
    ("zip64 elsewhere", with_zip64_end(write_zip(good("a", "b")), place=9), "not where it should be"),
]
MEMBERS = [
    ("twice", [*good("d/METADATA"), *good("d/METADATA")], "d/METADATA is there twice"),
    ("outside", good("../evil"), "leads outside"),
    ("outside below", good("a/../../evil"), "leads outside"),
    ("absolute", good("/etc/evil"), "is absolute"),
    ("backslash", good("..\\evil"), "not a plain path"),
    ("two slashes", good("a//b"), "not a plain path"),
    ("point", good("a/./b"), "not a plain path"),
    ("NUL", good("a\0.txt"), "characters"),
    ("ESC", good("a\x1b[2J"), r"a\\x1b\[2J has characters"),
    ("direction", good("a\u202egpj.exe"), r"a\\u202egpj.exe has"),
    ("line end", good("a\nb"), r"a\\nb has characters"),
    ("long part", [Member("x" * 256, b"")], "longer than"),
    ("long path", good("/".join(["abcdefghi"] * 11)), "longer than 100 bytes"),
    ("file below a file", good("a", "a/b"), "a is a file and a folder"),
    ("link", [Member("a", b"/etc/passwd", mode=0o120777)], "a link"),
    ("device", [Member("a", mode=0o020666)], "a device"),
    ("folder that is a file", [Member("a/", mode=0o100644)], "of another kind"),
    ("folder with content", [Member("a/", b"xx", mode=0o040755)], "more than"),
    ("setuid", [Member("a", mode=0o104755)], "special permission bits"),
    ("encrypted", [Member("a", flags=ENCRYPTED)], "encrypted"),
    ("strong encryption", [Member("a", flags=0x40)], "encrypted"),
    ("bzip2", [Member("a", method=12)], "method 12"),
    ("large", [Member("a", b"\0" * (600 << 10))], "more than 512 KiB"),
    ("large together", [Member(str(n), b"\0" * (400 << 10)) for n in range(3)], "more than 1 MiB"),
    ("two sizes", [Member("a", b"abc", method=0, size=4)], "has two sizes"),
    ("more than deflate can", [Member("a", b"abc", size=90_000)], "cannot hold"),
    ("another name", [Member("a", b"x", listed_extra=b"\x75\x70\x06\x00\x01\0\0\0\0b")], "another name"),
    ("extra field without end", [Member("a", b"x", listed_extra=b"\x01\x00\xff\x00")], "Bad|damaged"),
]  # fmt: skip
MEMBERS_OWN = [
    ("overlap", [*good("a"), Member("b", b"xyz", at=0)], "not where the archive's list has it|does not begin"),
    ("gap", [Member("a", b"x"), Member("b", b"y", before=b"hidden")], "does not begin where"),
    ("hidden member", [Member("a", b"x"), Member("b", b"y", before=write_zip(good("c"))[:60])], "does not begin where"),
    ("other name", [Member("a", b"x", listed_name="b")], "not where the archive's list has it"),
    ("other size", [Member("a", b"abc", listed={"size": 2})], "contradicts"),
    ("other checksum", [Member("a", b"abc", listed={"crc": 7})], "contradicts"),
    ("other method", [Member("a", b"abc", method=0, listed={"method": 8})], "contradicts"),
    ("flags", [Member("a", b"abc", flags=UTF8 | ENCRYPTED, listed={"flags": UTF8})], "contradicts"),
    ("no descriptor", [Member("a", b"abc", flags=UTF8 | STREAMED)], "other sizes behind it|is cut off|not where"),
]
CONTENTS = [
    ("checksum", [Member("a", b"abc", crc=7)], "size and checksum"),
    ("shorter", [Member("a", b"abc", size=9)], "size and checksum"),
    ("longer", [Member("a", b"abc" * 99, size=9)], "more than the 9 bytes"),
    ("damaged", [Member("a", b"abc", packed=b"\xff\xff\xff")], "is damaged"),
    ("cut off", [Member("a", b"abc" * 99, packed=deflate(b"abc" * 99)[:-3])], "cut off"),
    ("more behind", [Member("a", b"abc", packed=deflate(b"abc") + b"evil")], "goes on behind its end"),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in NO_MEMBER], ids=[case[0] for case in NO_MEMBER])
def test_an_end_that_lies_is_refused(data: bytes, message: str) -> None:
    for members_too in (True, False):
        with pytest.raises(UnsafeArchiveError, match=message) as raised:
            read_all(data, members_too=members_too)
        assert raised.value.next_step
        assert raised.value.where == "a.whl"


@pytest.mark.parametrize(("members", "message"), [case[1:] for case in MEMBERS], ids=[case[0] for case in MEMBERS])
def test_members_that_are_refused_by_the_list(members: list[Member], message: str) -> None:
    data = write_zip([*good("z"), *members])
    for members_too in (True, False):
        with pytest.raises(UnsafeArchiveError, match=message):
            read_all(data, members_too=members_too)


@pytest.mark.parametrize(
    ("members", "message"), [case[1:] for case in MEMBERS_OWN], ids=[case[0] for case in MEMBERS_OWN]
)
def test_members_that_contradict_the_list(members: list[Member], message: str) -> None:
    with pytest.raises(UnsafeArchiveError, match=message):
        read_all(write_zip(members))


@pytest.mark.parametrize(("members", "message"), [case[1:] for case in CONTENTS], ids=[case[0] for case in CONTENTS])
def test_contents_that_are_not_as_listed(members: list[Member], message: str) -> None:
    with pytest.raises(UnsafeArchiveError, match=message):
        read_all(write_zip([*members, *good("z")]))


@pytest.mark.parametrize("data", [overlapping(), quoted()], ids=["one kernel", "quoted"])
def test_members_within_one_another(data: bytes) -> None:
    with pytest.raises(UnsafeArchiveError), open_zip(io.BytesIO(data)) as archive:
        list(archive.names)


def test_a_bomb_takes_no_memory() -> None:
    bomb = write_zip([Member("a", b"", packed=deflate(b"\0" * (200 << 20)), size=100_000)])
    tracemalloc.start()
    with pytest.raises(UnsafeArchiveError, match="more than the 100000 bytes"):
        read_all(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def test_a_text_that_is_too_long_is_not_read() -> None:
    with open_zip(io.BytesIO(write_zip(good("a"))), where="a.whl") as archive:
        with pytest.raises(UnsafeArchiveError, match="more than 5 B"):
            archive.read("a", most=5)
        with pytest.raises(KeyError):
            archive.read("b")


def test_an_error_of_the_block_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="own"), open_zip(io.BytesIO(write_zip(good("a")))):
        raise ValueError("own")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "evil")
    with pytest.raises(FileExistsError), open_zip(io.BytesIO(write_zip(good("a")))) as archive:
        archive.extract(tmp_path / "out")
    assert not (tmp_path / "evil").exists()


BASE = write_zip([*good("d-1.dist-info/METADATA", "d/a"), Member("d/b", b"b", method=0)])


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(BASE) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 60))
def test_whatever_the_bytes_there_is_a_result_or_the_one_error(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(BASE)
    for place, value in changes:
        data[place] = value
    for mutated in (bytes(data), bytes(data[: len(data) - cut]), bytes(data[cut:])):
        for members_too in (True, False):
            try:
                found = read_all(mutated, members_too=members_too)
            except UnsafeArchiveError:
                continue
            assert sum(map(len, found.values())) <= SMALL.size
            if members_too:
                with zipfile.ZipFile(io.BytesIO(mutated)) as archive:
                    assert {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"} == found


@given(st.binary(max_size=200))
def test_whatever_the_end(data: bytes) -> None:
    for mutated in (data, data + BASE[-22:], BASE[: len(data)] + data, BASE[:-22] + data[:22].ljust(22, b"\0")):
        try:
            read_all(mutated)
        except UnsafeArchiveError:
            continue
