from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

import wheel_writer as ww
from cpuwheels.core.errors import WheelError
from cpuwheels.verification.reproducibility import compare_wheels
from elf_writer import Elf

if TYPE_CHECKING:
    from pathlib import Path


def test_same_bytes_have_no_difference(tmp_path: Path) -> None:
    one, two = ww.write_good(tmp_path / "1"), ww.write_good(tmp_path / "2")
    assert compare_wheels(one, two) == []


def test_same_bytes_under_another_name_differ(tmp_path: Path) -> None:
    one, two = ww.write_good(tmp_path), ww.write_good(tmp_path, ww.NAME.replace("2_28", "2_34"))
    assert one.read_bytes() == two.read_bytes()
    assert "file name" in [difference.what for difference in compare_wheels(one, two)]


def test_the_differing_byte_and_section_are_named(tmp_path: Path) -> None:
    one = ww.write_good(tmp_path / "1", library=Elf(text=b"built at 10:00").write())
    two = ww.write_good(tmp_path / "2", library=Elf(text=b"built at 11:00").write())
    first = compare_wheels(one, two)[0]
    assert first.member == "demo/_C.abi3.so"
    assert "in section .text, sizes" in first.detail
    offset = int(first.detail.split("byte at ")[1].split(" ")[0])
    assert Elf(text=b"built at 10:00").write()[offset : offset + 4] == b"0:00"
    assert str(first).startswith("demo/_C.abi3.so: content: first differing byte")


@pytest.mark.parametrize(
    ("left", "right", "lines"),
    [
        ({"a": b"12"}, {"a": b"123"}, ["a: content: first differing byte at 2, sizes 2 / 3"]),
        ({"a": b"1", "b": b""}, {"a": b"1"}, ["b: content: only in the first wheel"]),
        ({"a": b"1"}, {"a": b"1", "b": b""}, ["b: content: only in the second wheel"]),
        ({"a": b"1", "b": b""}, {"b": b"", "a": b"1"}, ["archive: order of members: member 0 is a / b"]),
    ],
)
def test_members_are_compared(
    tmp_path: Path, left: dict[str, bytes], right: dict[str, bytes], lines: list[str]
) -> None:
    one, two = ww.write_raw(tmp_path / "1/x.whl", left), ww.write_raw(tmp_path / "2/x.whl", right)
    assert [str(difference) for difference in compare_wheels(one, two)] == lines


def test_zip_metadata_is_compared(tmp_path: Path) -> None:
    one = ww.write_raw(tmp_path / "1/x.whl", {"a": b"1"})
    two = ww.write_raw(tmp_path / "2/y.whl", {"a": b"1"}, date_time=(2001, 1, 1, 0, 0, 0), external_attr=1)
    assert [str(difference) for difference in compare_wheels(one, two)] == [
        "a: date_time: (1980, 1, 1, 0, 0, 0) / (2001, 1, 1, 0, 0, 0)",
        "a: external_attr: 25165824 / 1",
        "archive: file name: x.whl / y.whl",
    ]


def test_another_packing_of_the_same_members_is_told(tmp_path: Path) -> None:
    one = ww.write_good(tmp_path / "1")
    two = ww.write_good(tmp_path / "2")
    with zipfile.ZipFile(one) as archive:
        members = {info: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(two, "w") as archive:
        for info, content in members.items():
            archive.writestr(info, content, info.compress_type, 1)
    found = compare_wheels(one, two)
    assert [difference.what for difference in found] == ["compressed bytes"]


def test_what_is_no_wheel_is_told(tmp_path: Path) -> None:
    bad = tmp_path / "x.whl"
    bad.write_bytes(b"no")
    with pytest.raises(WheelError, match=r"x\.whl cannot be read"):
        compare_wheels(bad, ww.write_good(tmp_path / "2"))
