from __future__ import annotations

import hashlib
import zipfile
from typing import TYPE_CHECKING

import pytest

import wheel_writer as ww
from cpuwheels.audit.validate import Expectations, validate_wheel
from cpuwheels.config.platform_policy import load_policy
from elf_writer import Elf
from wheel_notes import wheel_note
from wheel_sboms import with_sbom

if TYPE_CHECKING:
    from pathlib import Path

EXPECTED = Expectations(
    policy=load_policy("manylinux_2_28", "x86_64"),
    excluded=("libtorch*.so",),
    modules=("demo/_C.abi3.so",),
    forbidden_paths=("/home/builder/work",),
)
OTHER_TAG = ww.WHEEL.replace("2_28", "2_17").replace("Purelib: false", "Purelib: true")


def test_a_good_wheel_has_no_faults(tmp_path: Path) -> None:
    assert validate_wheel(ww.write_good(tmp_path), EXPECTED) == []


def test_a_bundled_library_and_one_of_torch_are_fine(tmp_path: Path) -> None:
    changes = {
        "demo.libs/libnuma-0123.so.1": Elf(soname="libnuma-0123.so.1").write(),
        "demo/_C.abi3.so": Elf(needed=("libnuma-0123.so.1", "libtorch_cpu.so"), runpath="$ORIGIN/../demo.libs").write(),
    }
    wheel = ww.write_good(tmp_path, **changes)
    unlicensed = "demo.libs/libnuma-0123.so.1 is a library that cpuwheels.json does not list with its licence"
    assert validate_wheel(wheel, EXPECTED) == [unlicensed]
    text = {"third/numa": hashlib.sha256(b"terms").hexdigest()}
    facts = {"name": "numactl", "version": "2", "license": "MIT", "digest": "d", "libraries": ["libnuma.so.1"]}
    note = wheel_note(
        bundled_libraries={"demo.libs/libnuma-0123.so.1": "libnuma.so.1"}, components=[facts | {"texts": text}]
    )
    changes |= {
        "metadata": ww.METADATA.encode() + b"License-File: third/numa\n",
        f"{ww.INFO}/cpuwheels.json": note.render(),
        f"{ww.INFO}/licenses/third/numa": b"terms",
    }
    assert validate_wheel(ww.write_good(tmp_path, **changes), EXPECTED) == ["it has no sboms/cpuwheels.cdx.json"]
    complete = with_sbom(ww.content(**changes), ww.INFO, ww.NAME)
    assert validate_wheel(ww.write_good(tmp_path, **complete), EXPECTED) == []
    tampered = complete | {"demo.libs/libnuma-0123.so.1": Elf(soname="libother.so.1").write()}
    assert validate_wheel(ww.write_good(tmp_path, **tampered), EXPECTED) == [
        "its sboms/cpuwheels.cdx.json has another digest of demo.libs/libnuma-0123.so.1 than the wheel"
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"library": Elf(needed=("libnuma.so.1",)).write()}, "needs libnuma.so.1, which is neither"),
        ({"library": Elf(symtab=True).write()}, "is not stripped: it has .symtab"),
        ({"library": Elf(stack=7).write()}, "asks for an executable stack"),
        ({"library": Elf(rpath="/usr/lib").write()}, "has search path '/usr/lib'"),
        ({"library": Elf(runpath="$ORIGINAL").write()}, "has search path '$ORIGINAL'"),
        ({"library": Elf(versions={"libc.so.6": {"GLIBC_2.34": "x"}}).write()}, "needs GLIBC_2.34 of libc.so.6"),
        ({"library": Elf(text=b"at /home/builder/work/a.cpp").write()}, "path /home/builder/work"),
        ({"library": b"\x7fELF rest"}, "is not a readable ELF file"),
        ({"wheel": OTHER_TAG.encode()}, "tag cp38-abi3-manylinux_2_28_x86_64 is in the file name and not in WHEEL"),
        ({"wheel": OTHER_TAG.encode()}, "tag cp38-abi3-manylinux_2_17_x86_64 is in WHEEL and not"),
        ({"wheel": OTHER_TAG.encode()}, "Root-Is-Purelib"),
        ({"metadata": ww.METADATA.replace("demo", "other").encode()}, "METADATA names other, the file demo"),
        ({"metadata": ww.METADATA.replace("1.0+cpu", "1.1").encode()}, "METADATA says version 1.1"),
        ({"metadata": ww.METADATA.encode() + b"Requires-Dist: a @ https://e.org/a-1.zip\n"}, "has a URL"),
    ],
)
def test_each_fault_is_listed(tmp_path: Path, changes: dict[str, bytes], fault: str) -> None:
    faults = validate_wheel(ww.write_good(tmp_path, **changes), EXPECTED)
    assert any(fault in line for line in faults), faults


def test_a_missing_module_is_listed(tmp_path: Path) -> None:
    expected = Expectations(EXPECTED.policy, (), ("demo/_D.abi3.so",), ())
    assert validate_wheel(ww.write_good(tmp_path), expected) == ["demo/_D.abi3.so is missing"]


def test_an_archive_packed_anyhow(tmp_path: Path) -> None:
    good = ww.write_good(tmp_path)
    with zipfile.ZipFile(good) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    record = f"{ww.INFO}/RECORD"
    rows = members[record].decode().splitlines()
    rows = [rows[1], rows[0].replace("sha256=", "sha256=x"), *rows[2:-2], "demo/gone.py,,", rows[-1]]
    members = {"demo/": b"", record: "\n".join(rows).encode(), **{k: v for k, v in members.items() if k != record}}
    wheel = tmp_path / "bad" / ww.NAME
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for year, (name, data) in enumerate(members.items()):
            archive.writestr(zipfile.ZipInfo(name, (2000 + year, 1, 1, 0, 0, 0)), data)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(zipfile.ZipInfo("demo/__init__.py", (2000, 1, 1, 0, 0, 0)), b"")
    text = "\n".join(validate_wheel(wheel, EXPECTED))
    for fault in (
        "demo/ is a directory entry",
        "demo/__init__.py is there twice",
        "entries are not sorted",
        "different times",
        "demo/_C.abi3.so has mode",
        "RECORD is not sorted",
        "demo/gone.py is in RECORD only",
        "is not in RECORD",
        "does not have the digest and size that RECORD says",
    ):
        assert fault in text


@pytest.mark.parametrize(("before", "after"), [(",sha256=", ",sha256=x"), (",0\n", ",1\n")], ids=["digest", "size"])
def test_record_has_to_say_digest_and_size(tmp_path: Path, before: str, after: str) -> None:
    good = ww.write_good(tmp_path)
    with zipfile.ZipFile(good) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    record = f"{ww.INFO}/RECORD"
    rows = members[record].decode().splitlines(keepends=True)
    changed = [row.replace(before, after) if row.startswith("demo/__init__.py,") else row for row in rows]
    wheel = ww.write_raw(tmp_path / "bad" / ww.NAME, members | {record: "".join(changed).encode()})
    assert "demo/__init__.py does not have the digest and size that RECORD says" in validate_wheel(wheel, EXPECTED)


def test_a_path_out_of_the_wheel_is_listed(tmp_path: Path) -> None:
    faults = validate_wheel(ww.write_good(tmp_path, **{"demo/../../x": b""}), EXPECTED)
    assert "demo/../../x has an unsafe path" in faults


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / ww.NAME
    path.write_bytes(b"")
    assert validate_wheel(path, EXPECTED)[0].startswith("cannot be read")
