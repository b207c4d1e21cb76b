"""The facts of one ELF file: what it needs, exports and contains."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.construct.core import ConstructError
from elftools.elf.dynamic import DynamicSection, DynamicTag
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.hash import ELFHashSection, GNUHashSection
from elftools.elf.sections import Symbol, SymbolTableSection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PF_X = 1  # <elf.h>: segment flag "executable"
MAGIC = b"\x7fELF"
"""How an ELF file begins."""

MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64", "s390x": "EM_S390"}
"""How ELF files name machines, by ``platform.machine()``."""

_VERSION_MASK = 0x7FFF  # <elf.h>: the top bit of a .gnu.version entry marks a hidden symbol
_HIDDEN = 0x8000
_OF_DAMAGED = (
    *(AttributeError, AssertionError, TypeError, ValueError, LookupError, ArithmeticError),
    *(OSError, struct.error),
)
"""Errors that pyelftools has besides its own when numbers in a file do not fit each other."""

_MOST_VERSIONS = 10_000
"""Versions that a file needs; torch's need some dozens. A damaged list of them may have no end."""

_NO_VERSION = 1  # <elf.h> VER_NDX_GLOBAL: the highest .gnu.version entry that names no version


@dataclass(frozen=True)
class NeededVersion:
    """One version of another library's symbols that a file needs.

    Attributes:
        library: Soname, such as ``libc.so.6``.
        version: Such as ``GLIBC_2.28``.
        symbols: The undefined symbols that carry it, sorted.
    """

    library: str
    version: str
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class ElfFacts:
    """The facts of one ELF file.

    Attributes:
        machine: Such as ``EM_X86_64``.
        soname: Its own, or empty.
        needed: Sonames it is linked to.
        search_path: Entries of its RPATH and RUNPATH.
        versions: Symbol versions it needs.
        loose: Undefined symbols that must be found when it is loaded and name no version, sorted.
        unstripped: Names of its symbol table and debug sections.
        executable_stack: Whether loading it makes stacks executable.
    """

    machine: str
    soname: str
    needed: tuple[str, ...]
    search_path: tuple[str, ...]
    versions: tuple[NeededVersion, ...]
    loose: tuple[str, ...]
    unstripped: tuple[str, ...]
    executable_stack: bool


@contextmanager
def elf_errors() -> Iterator[None]:
    """Turn what pyelftools makes of a damaged file into one error.

    Raises:
        ValueError: The file is damaged.
    """
    try:
        yield
    except (ELFError, ConstructError, *_OF_DAMAGED) as error:
        raise ValueError(f"not a readable ELF file: {error}") from error


def is_elf(stream: IO[bytes]) -> bool:
    """Return whether a stream begins like an ELF file; the stream is put back to its start."""
    start = stream.read(len(MAGIC))
    stream.seek(0)
    return start == MAGIC


def read_elf(stream: IO[bytes]) -> ElfFacts:
    """Return the facts of an ELF file from a seekable stream.

    Raises:
        ValueError: It is not a readable ELF file.
    """
    with elf_errors():
        elf = ELFFile(stream)
        names = [section.name for section in elf.iter_sections()]
        tags = _tags(elf)
        undefined = list(_undefined(elf))
        stack = next((segment for segment in elf.iter_segments() if segment["p_type"] == "PT_GNU_STACK"), None)
        return ElfFacts(
            machine=str(elf["e_machine"]),
            soname=next(iter(_strings(tags, "DT_SONAME", "soname")), ""),
            needed=tuple(_strings(tags, "DT_NEEDED", "needed")),
            search_path=tuple(
                entry
                for path in (*_strings(tags, "DT_RPATH", "rpath"), *_strings(tags, "DT_RUNPATH", "runpath"))
                for entry in path.split(":")
            ),
            versions=tuple(_versions(elf, undefined)),
            loose=tuple(sorted(item.name for item in undefined if item.version <= _NO_VERSION and not item.weak)),
            unstripped=tuple(name for name in names if name == ".symtab" or name.startswith((".debug_", ".zdebug_"))),
            # A file without the segment leaves the decision to the loader, whose default is executable.
            executable_stack=stack is None or bool(stack["p_flags"] & _PF_X),
        )


def read_needed(stream: IO[bytes]) -> tuple[tuple[str, ...], str]:
    """Return the sonames that a file is linked to and its own, or an empty one; cheaper than all facts.

    Raises:
        ValueError: It is not a readable ELF file.
    """
    with elf_errors():
        tags = _tags(ELFFile(stream))
        return tuple(_strings(tags, "DT_NEEDED", "needed")), next(iter(_strings(tags, "DT_SONAME", "soname")), "")


def exported(stream: IO[bytes], names: Iterable[str]) -> frozenset[str]:
    """Return which of the names the loader would find in a library, asking its hash table as the loader does.

    Raises:
        ValueError: It is not a readable ELF file.
    """
    with elf_errors():
        tables = [
            section
            for section in ELFFile(stream).iter_sections()
            if isinstance(section, (GNUHashSection, ELFHashSection))
        ]
        return frozenset(name for name in names if any(_defines(table, name) for table in tables))


def linkable(stream: IO[bytes]) -> frozenset[str]:
    """Return the names that a linker takes from a library: those with a version that is not hidden.

    Raises:
        ValueError: It is not a readable ELF file.
    """
    with elf_errors():
        return frozenset(
            symbol.name
            for symbol, version in _symbols(ELFFile(stream))
            if symbol["st_shndx"] != "SHN_UNDEF" and not version & _HIDDEN
        )


def sections(stream: IO[bytes]) -> list[tuple[int, int, str]]:
    """Return the sections that take up bytes, as (first offset, end offset, name), by offset.

    Raises:
        ValueError: It is not a readable ELF file.
    """
    with elf_errors():
        found = [
            (int(section["sh_offset"]), int(section["sh_offset"] + section["sh_size"]), section.name or "(null)")
            for section in ELFFile(stream).iter_sections()
            if section["sh_type"] not in {"SHT_NOBITS", "SHT_NULL"} and section["sh_size"]
        ]
        return sorted(found)


def _tags(elf: ELFFile) -> list[DynamicTag]:
    dynamic = elf.get_section_by_name(".dynamic")
    return list(dynamic.iter_tags()) if isinstance(dynamic, DynamicSection) else []


def _strings(tags: list[DynamicTag], kind: str, attribute: str) -> list[str]:
    return [getattr(tag, attribute) for tag in tags if tag.entry.d_tag == kind]


def _defines(table: GNUHashSection | ELFHashSection, name: str) -> bool:
    if isinstance(table, ELFHashSection):
        _check_chain(table, name)
    symbol = table.get_symbol(name)
    return symbol is not None and symbol["st_shndx"] != "SHN_UNDEF"


def _check_chain(table: ELFHashSection, name: str) -> None:
    """Check that the chain with a symbol ends: pyelftools follows a circle for ever.

    Raises:
        ValueError: It is a circle.
    """
    buckets, chains = table.params["buckets"], table.params["chains"]
    number = buckets[table.elf_hash(name) % len(buckets)] if buckets else 0
    for _ in chains:
        if number == 0:
            return
        number = chains[number]
    if number:
        msg = "a chain of its hash table is a circle"
        raise ValueError(msg)


@dataclass(frozen=True)
class _Undefined:
    name: str
    weak: bool
    version: int
    """Its number in the file's own list; up to `_NO_VERSION` it has none."""


def _undefined(elf: ELFFile) -> Iterator[_Undefined]:
    for symbol, version in _symbols(elf):
        if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name:
            yield _Undefined(symbol.name, symbol["st_info"]["bind"] == "STB_WEAK", version & _VERSION_MASK)


def _symbols(elf: ELFFile) -> Iterator[tuple[Symbol, int]]:
    """Yield each dynamic symbol with its entry in .gnu.version, or 0 if the library has no versions."""
    table, section = (elf.get_section_by_name(name) for name in (".dynsym", ".gnu.version"))
    if not isinstance(table, SymbolTableSection):
        return
    versions = None
    if isinstance(section, GNUVerSymSection):  # at once: pyelftools would read one entry after the other
        content = section.data()
        versions = struct.unpack(f"{'<' if elf.little_endian else '>'}{len(content) // 2}H", content)
    for number, symbol in enumerate(table.iter_symbols()):
        yield symbol, 0 if versions is None else versions[number]


def _versions(elf: ELFFile, undefined: list[_Undefined]) -> Iterator[NeededVersion]:
    needs = elf.get_section_by_name(".gnu.version_r")
    if not isinstance(needs, GNUVerNeedSection):
        return
    symbols: dict[int, list[str]] = {}
    for item in undefined:
        symbols.setdefault(item.version, []).append(item.name)
    left = _MOST_VERSIONS
    for need, auxiliaries in needs.iter_versions():
        for auxiliary in auxiliaries:
            left -= 1
            if left < 0:
                msg = f"it needs more than {_MOST_VERSIONS} versions"
                raise ValueError(msg)
            index = auxiliary.entry["vna_other"] & _VERSION_MASK
            yield NeededVersion(need.name or "", auxiliary.name or "", tuple(sorted(symbols.get(index, []))))
