"""Which function of a stripped library an address belongs to: unwind tables list where each begins."""

from __future__ import annotations

import bisect
import struct
from typing import IO, TYPE_CHECKING

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from cpuwheels.core.elf import elf_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = 12  # <Linux Standard Base, .eh_frame_hdr>: version, three encodings, .eh_frame's place, count
_ENCODINGS = (0x03, 0x3B)
"""The encodings of count and table that every linker writes: udata4, and datarel | sdata4."""
_FUNCTIONS = ("STT_FUNC", "STT_GNU_IFUNC")


class Functions:
    """The functions of one ELF file."""

    def __init__(self, starts: list[int], names: dict[int, str]) -> None:
        """Take where functions begin, sorted, and the names of those that have one."""
        self._starts = sorted({*starts, *names})
        self._names = names

    def name(self, address: int) -> str:
        """Return the name of the function that holds an address, or where it begins if it has none."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return "no function"
        start = self._starts[place]
        return self._names.get(start, f"function at {start:#x}")


def read_functions(stream: IO[bytes]) -> Functions:
    """Return the functions of an ELF file.

    Raises:
        ValueError: It is not a readable ELF file.
    """
    with elf_errors():
        elf = ELFFile(stream)
        return Functions(list(_starts(elf)), dict(_names(elf)))


def _starts(elf: ELFFile) -> Iterator[int]:
    section = elf.get_section_by_name(".eh_frame_hdr")
    if section is None:
        return
    content, base = section.data(), section["sh_addr"]
    if len(content) < _HEADER or tuple(content[2:4]) != _ENCODINGS:
        return
    order = "<" if elf.little_endian else ">"
    (count,) = struct.unpack_from(f"{order}I", content, 8)
    for start, _ in struct.iter_unpack(f"{order}ii", content[_HEADER : _HEADER + 8 * count]):
        yield base + start


def _names(elf: ELFFile) -> Iterator[tuple[int, str]]:
    for name in (".dynsym", ".symtab"):
        table = elf.get_section_by_name(name)
        for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
            if symbol["st_info"]["type"] in _FUNCTIONS and symbol["st_shndx"] != "SHN_UNDEF":
                yield symbol["st_value"], symbol.name
