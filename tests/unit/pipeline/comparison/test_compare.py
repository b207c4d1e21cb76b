"""How two builds differ, and which differences count."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.pipeline.build_record import precompiled_record
from cpuwheels.pipeline.comparison.compare import compare
from cpuwheels.pipeline.comparison.result import Comparison, FileChange, InputChange, JobTime, ListChange
from cpuwheels.pipeline.comparison.side import read_side
from elf_writer import Elf
from ledger_records import RECORDS, job
from recorded_wheel import write_build
from small_wheels import write_wheel


def compared(base: Path, before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    """Return the comparison of two builds."""
    write_build(base / "a", **before)
    write_build(base / "b", **after)
    return compare(read_side(base / "a"), read_side(base / "b"))


def test_nothing_differs(tmp_path: Path) -> None:
    found = compared(tmp_path, {}, {})
    assert found.same
    assert (found.files, found.metadata, found.operators, found.inputs, found.flags) == ((), (), (), (), ())
    assert found.not_compared == {}


def test_times_are_compared_and_do_not_count(tmp_path: Path) -> None:
    slower = [
        job("CMakeFiles/_C.dir/csrc/cpu/a.cpp.o", 0, 25),
        *RECORDS[2:],
        job("new.o", 3, 1, note="direct_cache_hit"),
    ]
    memory = MemoryUse(jobs=2, cap=1000, where="x", room=800, how="y", peak=700)
    found = compared(tmp_path, {}, {"jobs": slower, "memory": memory})
    assert found.same
    assert found.times is not None
    assert found.times.jobs[:3] == (
        JobTime(output="CMakeFiles/_C.dir/csrc/cpu/a.cpp.o", before=10, after=25, cached=(False, False)),
        JobTime(output="CMakeFiles/_C.dir/csrc/cpu/b.cpp.o", before=6, after=None, cached=(False, False)),
        JobTime(output="new.o", before=None, after=1, cached=(False, True)),
    )
    assert (found.times.before.peak, found.times.after.peak) == (540, 700)
    assert (found.times.before.cpu_seconds, found.times.after.cached) == (22, 1)


def test_files(tmp_path: Path) -> None:
    found = compared(
        tmp_path,
        {"files": {"same.py": "1", "changed.py": "12", "gone.py": "123"}},
        {"files": {"same.py": "1", "changed.py": "21", "new.py": "1234"}},
    )
    assert not found.same
    assert found.files == (
        FileChange(path="changed.py", change="changed", before=2, after=2),
        FileChange(path="gone.py", change="removed", before=3, after=None),
        FileChange(path="new.py", change="added", before=None, after=4),
    )


def test_metadata_operators_inputs_and_flags(tmp_path: Path) -> None:
    found = compared(
        tmp_path,
        {},
        {
            "version": "0.33.0+cpu",
            "requires": ("torch==2.14.0+cpu",),
            "operators": {"_C": ("_C::scale",), "_C_AVX2": ("_C::scale",)},
            "flags": {"_C": ("-O2", "-mavx512f"), "_C_AVX2": ("-mavx2",)},
            "facts": {"toolchain": {"version": "GNU 15", "digest": "t2"}},
        },
    )
    assert not found.same
    assert {change.name: (change.added, change.removed) for change in found.metadata} == {
        "Requires-Dist": (("torch==2.14.0+cpu",), ("torch==2.13.0+cpu; platform_machine != 'arm64'",)),
        "Version": (("0.33.0+cpu",), ("0.32.0+cpu",)),
    }
    assert found.operators == (
        ListChange(name="_C", added=(), removed=("_C::gelu()",)),
        ListChange(name="_C_AVX2", added=("_C::scale()",), removed=()),
    )
    assert found.inputs == (InputChange(name="compiler", before="GNU 14 t", after="GNU 15 t2"),)
    assert found.flags == (
        ListChange(name="_C", added=("-O2",), removed=("-O3",)),
        ListChange(name="_C_AVX2", added=("-mavx2",), removed=()),
    )


def test_symbols(tmp_path: Path) -> None:
    for name, elf in {
        "a": Elf(exports=("scale", "old"), versions={"libc.so.6": {"GLIBC_2.14": "memcpy"}}),
        "b": Elf(
            exports=("scale", "new", "newer"), versions={"libc.so.6": {"GLIBC_2.17": "memcpy"}}, needed=("libm.so.6",)
        ),
    }.items():
        with zipfile.ZipFile(write_wheel(tmp_path / name, "vllm", "1"), "a") as archive:
            archive.writestr("vllm/_C.abi3.so", elf.write())
    found = compare(read_side(tmp_path / "a"), read_side(tmp_path / "b"))
    (binary,) = found.binaries
    assert not binary.same
    assert (binary.exported, binary.undefined) == ((2, 3), (1, 1))
    assert (binary.exported_added, binary.exported_removed) == (("new", "newer"), ("old",))
    assert (binary.undefined_added, binary.undefined_removed) == (("memcpy@GLIBC_2.17",), ("memcpy@GLIBC_2.14",))
    assert (binary.needed_added, binary.needed_removed) == (("libm.so.6",), ("libc.so.6",))


def test_wheels_alone_are_compared_as_far_as_they_go(tmp_path: Path) -> None:
    one = read_side(write_wheel(tmp_path / "a", "vllm", "1"))
    other = read_side(write_wheel(tmp_path / "b", "vllm", "2"))
    found = compare(one, other)
    assert [change.path for change in found.files] == ["*.dist-info/METADATA"]
    assert (found.operators, found.inputs, found.flags, found.times) == (None, None, None, None)
    assert sorted(found.not_compared) == ["flags", "inputs", "operators", "times"]
    assert not found.before.has_record


def test_flags_that_name_folders_do_not_count_and_old_kernels_have_none(tmp_path: Path) -> None:
    found = compared(tmp_path, {"flags": {}}, {})
    assert found.flags == ()
    assert found.not_compared == {"flags of each library": "the kernels of one wheel were built before these were kept"}
    found = compared(tmp_path, {}, {"made": precompiled_record("there", "a.whl", "d")})
    assert found.flags is None
    assert found.not_compared == {"flags": "the kernels of one wheel were taken from another"}
