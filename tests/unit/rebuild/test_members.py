"""Two wheels compared member by member, one of which is hostile."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from bad_zips import Member, overlapping, quoted, write_zip
from cpuwheels.core.errors import UnsafeArchiveError
from cpuwheels.rebuild.members import compare_members, fault_of


def wheel(path: Path, members: dict[str, bytes], date: tuple[int, int, int] = (2020, 1, 1)) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (*date, 0, 0, 0)), content)
    return path


MEMBERS = {"vllm/a.py": b"1\n", "vllm/b.json": b'{"x": 1}', "vllm/c.bin": b"\0"}


def test_each_member_that_differs_is_named(tmp_path: Path) -> None:
    one = wheel(tmp_path / "1" / "v.whl", {**MEMBERS, "only/here": b"12"})
    other = wheel(tmp_path / "2" / "v.whl", {**MEMBERS, "vllm/b.json": b'{"x": 22}', "only/there": b"1"})
    found = compare_members(one, other)
    named = {difference.member: difference for difference in found.differences}
    assert named.keys() == {"vllm/b.json", "only/here", "only/there"}
    changed = named["vllm/b.json"]
    assert (changed.kind, changed.sizes, changed.lines) == ("json", (8, 9), ("x: 1 → 22",))
    assert len(set(changed.digests)) == 2
    assert (named["only/here"].where, named["only/there"].where) == ("published", "rebuilt")
    assert (found.count, found.same) == (3, 2)


def test_the_archive_itself_may_differ(tmp_path: Path) -> None:
    one = wheel(tmp_path / "1" / "v.whl", MEMBERS)
    later = wheel(tmp_path / "2" / "v.whl", MEMBERS, (2021, 1, 1))
    (found,) = compare_members(one, later).differences
    assert (found.member, found.kind) == ("", "archive")
    assert "date_time" in found.lines[0]
    turned = wheel(tmp_path / "3" / "v.whl", dict(reversed(MEMBERS.items())))
    assert compare_members(one, turned).differences[0].lines == ("the members are in another order",)
    named = wheel(tmp_path / "4" / "w.whl", MEMBERS)
    assert compare_members(one, named).differences[0].lines == ("file name: v.whl → w.whl",)
    packed = tmp_path / "5" / "v.whl"
    packed.parent.mkdir()
    packed.write_bytes(one.read_bytes())
    assert compare_members(one, packed).differences[0].lines[0].startswith("the same members, packed by another zlib")


def test_values_that_a_terminal_would_obey_are_escaped(tmp_path: Path) -> None:
    one = wheel(tmp_path / "1" / "v.whl", {"vllm/a.py": b"\x1b[31m1"})
    other = wheel(tmp_path / "2" / "v.whl", {"vllm/a.py": b"2"})
    (found,) = compare_members(one, other).differences
    assert "-\\x1b[31m1" in found.lines


BAD = {
    "overlapping": overlapping(),
    "quoted": quoted(),
    "obeyed": write_zip([Member("vllm/\u202ea.py", b"1")]),
    "outside": write_zip([Member("../vllm/a.py", b"1")]),
    "link": write_zip([Member("vllm/a.py", b"/etc/passwd", mode=0o120777)]),
    "wrong size": write_zip([Member("vllm/a.py", b"1" * 100, size=1)]),
    "cut off": write_zip([Member("vllm/a.py", b"1")])[:-30],
    "no archive": b"1",
}


@pytest.mark.parametrize("name", BAD)
def test_an_archive_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.whl"
    bad.write_bytes(BAD[name])
    with pytest.raises(UnsafeArchiveError) as caught:
        compare_members(bad, wheel(tmp_path / "2" / "v.whl", MEMBERS))
    (line,) = fault_of(caught.value).differences
    assert line.lines[0]
