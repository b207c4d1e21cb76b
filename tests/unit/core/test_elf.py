from __future__ import annotations

import io

import pytest

from cpuwheels.core.elf import exported, is_elf, linkable, read_elf, read_needed, sections
from elf_writer import Elf


def test_facts_of_a_library() -> None:
    elf = Elf(
        needed=("libtorch.so", "libc.so.6"),
        soname="libdemo.so.1",
        runpath="$ORIGIN/../demo.libs:/opt/lib",
        versions={"libc.so.6": {"GLIBC_2.17": "memcpy", "GLIBC_2.34": "dlopen"}, "libm.so.6": {"GLIBC_2.27": "exp"}},
    )
    facts = read_elf(io.BytesIO(elf.write()))
    assert facts.machine == "EM_X86_64"
    assert facts.soname == "libdemo.so.1"
    assert facts.needed == ("libtorch.so", "libc.so.6")
    assert facts.search_path == ("$ORIGIN/../demo.libs", "/opt/lib")
    assert [(need.library, need.version, need.symbols) for need in facts.versions] == [
        ("libc.so.6", "GLIBC_2.17", ("memcpy",)),
        ("libc.so.6", "GLIBC_2.34", ("dlopen",)),
        ("libm.so.6", "GLIBC_2.27", ("exp",)),
    ]
    assert facts.unstripped == ()
    assert not facts.executable_stack


@pytest.mark.parametrize(("stack", "executable"), [(6, False), (7, True), (None, True)])
def test_the_stack(stack: int | None, executable: bool) -> None:
    assert read_elf(io.BytesIO(Elf(stack=stack).write())).executable_stack is executable


def test_a_symbol_table_is_seen() -> None:
    assert read_elf(io.BytesIO(Elf(symtab=True).write())).unstripped == (".symtab",)


@pytest.mark.parametrize("versions", [{}, {"libc.so.6": {"GLIBC_2.17": "memcpy"}}])
def test_undefined_symbols_without_a_version(versions: dict[str, dict[str, str]]) -> None:
    elf = Elf(versions=versions, loose=("gettid", "arc4random"), weak=("__gmon_start__",), exports=("own",))
    facts = read_elf(io.BytesIO(elf.write()))
    assert facts.loose == ("arc4random", "gettid")
    assert [need.symbols for need in facts.versions] == [("memcpy",)] * len(versions)


@pytest.mark.parametrize("kind", ["gnu", "sysv"])
def test_what_a_library_exports(kind: str) -> None:
    elf = Elf(loose=("gettid",), exports=("first", "second", "last"), hidden=("newer",), hash=kind)
    stream = io.BytesIO(elf.write())
    assert exported(stream, ["second", "last", "newer", "gettid", "nowhere"]) == {"second", "last", "newer"}
    assert linkable(stream) == {"first", "second", "last"}


def test_a_library_that_exports_nothing() -> None:
    stream = io.BytesIO(Elf(needed=("libc10.so", "librt.so.1")).write())
    assert exported(stream, ["memcpy"]) == linkable(stream) == set()
    assert read_needed(stream) == (("libc10.so", "librt.so.1"), "")


def test_sections_by_offset() -> None:
    data = Elf(text=b"the text").write()
    found = {name: data[start:end] for start, end, name in sections(io.BytesIO(data))}
    assert found[".text"] == b"the text"


def test_damage_is_told() -> None:
    assert not is_elf(io.BytesIO(b"text"))
    for reader in (read_elf, read_needed, linkable, lambda stream: exported(stream, ["x"])):
        with pytest.raises(ValueError, match="not a readable ELF file"):
            reader(io.BytesIO(b"\x7fELF\x02\x01\x01"))
