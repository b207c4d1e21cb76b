"""The table inside a chooser: which libraries it loads, and which features each of them needs.

It is an array of ``struct library`` (csrc/chooser/chooser.h): pointers to a name and to an array of needs, which ends
with a null pointer. The linker leaves a relocation for each pointer, so the table can be read on any machine.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from cpuwheels.core.elf import elf_errors
from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from collections.abc import Iterator

_POINTER = 8


class Choosable(Strict):
    """A library that a chooser can load."""

    name: str
    needs: tuple[str, ...]
    """CPU features as isaprobe names them."""


def read_table(stream: IO[bytes], module: str) -> tuple[Choosable, ...]:
    """Return the libraries of a chooser in its order, the best first; none if the file is no chooser.

    Args:
        stream: The module's file.
        module: Its name, such as ``_C``; the libraries' names begin with it and an underscore.

    Raises:
        ValueError: It is not a readable ELF file.
    """
    with elf_errors():
        elf = ELFFile(stream)
        if elf.elfclass != _POINTER * 8:
            return ()
        pointers = dict(_pointers(elf))
        memory = _Memory(elf)
    found = []
    for place in sorted(pointers):
        name, needs = memory.text(pointers[place]), pointers.get(place + _POINTER)
        if name.startswith(f"{module}_") and needs in pointers:
            found.append(Choosable(name=name, needs=tuple(_strings(memory, pointers, needs))))
    return tuple(found)


def _strings(memory: _Memory, pointers: dict[int, int], place: int) -> Iterator[str]:
    while place in pointers:
        yield memory.text(pointers[place])
        place += _POINTER


def _pointers(elf: ELFFile) -> Iterator[tuple[int, int]]:
    """Return the address of each pointer that the loader sets, and what it points at in this file."""
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection) and section.is_RELA():
            for entry in section.iter_relocations():
                if entry["r_info_sym"] == 0:
                    yield entry["r_offset"], entry["r_addend"]


class _Memory:
    """The loaded segments of a file, by address."""

    def __init__(self, elf: ELFFile) -> None:
        self._parts = [
            (int(segment["p_vaddr"]), segment.data())
            for segment in elf.iter_segments()
            if segment["p_type"] == "PT_LOAD"
        ]

    def text(self, address: int) -> str:
        """Return the C string at an address; empty if there is none."""
        for start, data in self._parts:
            if start <= address < start + len(data):
                place = address - start
                return data[place : data.find(b"\0", place)].decode("ascii", errors="replace")
        return ""
