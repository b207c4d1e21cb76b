"""What a wheel's audit needs to know of one ELF file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection, DynamicTag
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

if TYPE_CHECKING:
    from collections.abc import Iterator

_PF_X = 1  # <elf.h>: segment flag "executable"
_MAGIC = b"\x7fELF"
_VERSION_MASK = 0x7FFF  # <elf.h>: the top bit of a .gnu.version entry marks a hidden symbol


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
        unstripped: Names of its symbol table and debug sections.
        executable_stack: Whether loading it makes stacks executable.
    """

    machine: str
    soname: str
    needed: tuple[str, ...]
    search_path: tuple[str, ...]
    versions: tuple[NeededVersion, ...]
    unstripped: tuple[str, ...]
    executable_stack: bool


def is_elf(stream: IO[bytes]) -> bool:
    """Return whether a stream begins like an ELF file; the stream is put back to its start."""
    start = stream.read(len(_MAGIC))
    stream.seek(0)
    return start == _MAGIC


def read_elf(stream: IO[bytes]) -> ElfFacts:
    """Return the facts of an ELF file from a seekable stream.

    Raises:
        ValueError: It is not a readable ELF file.
    """
    try:
        elf = ELFFile(stream)
        names = [section.name for section in elf.iter_sections()]
        dynamic = elf.get_section_by_name(".dynamic")
        tags = list(dynamic.iter_tags()) if isinstance(dynamic, DynamicSection) else []
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
            versions=tuple(_versions(elf)),
            unstripped=tuple(name for name in names if name == ".symtab" or name.startswith((".debug_", ".zdebug_"))),
            # A file without the segment leaves the decision to the loader, whose default is executable.
            executable_stack=stack is None or bool(stack["p_flags"] & _PF_X),
        )
    except (ELFError, UnicodeDecodeError) as error:
        raise ValueError(f"not a readable ELF file: {error}") from error


def sections(stream: IO[bytes]) -> list[tuple[int, int, str]]:
    """Return the sections that take up bytes, as (first offset, end offset, name), by offset."""
    found = [
        (int(section["sh_offset"]), int(section["sh_offset"] + section["sh_size"]), section.name or "(null)")
        for section in ELFFile(stream).iter_sections()
        if section["sh_type"] not in {"SHT_NOBITS", "SHT_NULL"} and section["sh_size"]
    ]
    return sorted(found)


def _strings(tags: list[DynamicTag], kind: str, attribute: str) -> list[str]:
    return [getattr(tag, attribute) for tag in tags if tag.entry.d_tag == kind]


def _versions(elf: ELFFile) -> Iterator[NeededVersion]:
    needs = elf.get_section_by_name(".gnu.version_r")
    if not isinstance(needs, GNUVerNeedSection):
        return
    symbols = _symbols_by_version(elf)
    for need, auxiliaries in needs.iter_versions():
        for auxiliary in auxiliaries:
            index = auxiliary.entry["vna_other"] & _VERSION_MASK
            yield NeededVersion(need.name or "", auxiliary.name or "", tuple(sorted(symbols.get(index, []))))


def _symbols_by_version(elf: ELFFile) -> dict[int, list[str]]:
    versions = elf.get_section_by_name(".gnu.version")
    table = elf.get_section_by_name(".dynsym")
    found: dict[int, list[str]] = {}
    if not isinstance(versions, GNUVerSymSection) or not isinstance(table, SymbolTableSection):
        return found
    for entry, symbol in zip(versions.iter_symbols(), table.iter_symbols(), strict=False):
        index = entry.entry["ndx"]
        if isinstance(index, int) and symbol["st_shndx"] == "SHN_UNDEF" and symbol.name:
            found.setdefault(index & _VERSION_MASK, []).append(symbol.name)
    return found
