"""Writes a small ELF file with a chooser's table: strings, pointers, and the relocations that a linker leaves."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_BASE = 0x1000
_PT_LOAD, _RELA, _STRTAB, _PROGBITS = 1, 4, 3, 1
_RELATIVE = 1027
"""R_AARCH64_RELATIVE."""


def chooser_elf(libraries: Mapping[str, Sequence[str]], order: str = "<") -> bytes:
    """Return the file of a chooser.

    Args:
        libraries: Library → what it needs.
        order: Byte order, as `struct` names it.
    """
    texts, places = b"\0", dict[str, int]()
    for text in ["unrelated", *libraries, *(need for needs in libraries.values() for need in needs)]:
        places.setdefault(text, _BASE + len(texts))
        texts += text.encode() + b"\0"
    texts += bytes(-len(texts) % 8)
    start = _BASE + len(texts)
    relocations, arrays = [], {}
    at = start
    for name, needs in libraries.items():
        arrays[name] = at
        for need in needs:
            relocations.append((at, places[need]))
            at += 8
        at += 8  # the null pointer
    relocations.append((at, places["unrelated"]))
    at += 16
    for name in libraries:
        relocations += [(at, places[name]), (at + 8, arrays[name])]
        at += 16
    memory = texts + bytes(at - start)
    names = b"\0.rela.dyn\0.shstrtab\0.data\0"
    rela = b"".join(struct.pack(f"{order}QQq", place, _RELATIVE, target) for place, target in relocations)
    head, table = 64, 56
    memory_at = head + table
    rela_at = memory_at + len(memory)
    names_at = rela_at + len(rela)
    sections_at = names_at + len(names)
    section = struct.Struct(f"{order}IIQQQQIIQQ")
    sections = [
        section.pack(*[0] * 10),
        section.pack(1, _RELA, 2, 0, rela_at, len(rela), 0, 0, 8, 24),
        section.pack(11, _STRTAB, 0, 0, names_at, len(names), 0, 0, 1, 0),
        section.pack(21, _PROGBITS, 3, _BASE, memory_at, len(memory), 0, 0, 8, 0),
    ]
    machine = 183 if order == "<" else 22
    ident = b"\x7fELF" + bytes([2, 1 if order == "<" else 2, 1]) + bytes(9)
    header = ident + struct.pack(
        f"{order}HHIQQQIHHHHHH", 3, machine, 1, 0, head, sections_at, 0, head, table, 1, section.size, len(sections), 2
    )
    segment = struct.pack(f"{order}IIQQQQQQ", _PT_LOAD, 6, memory_at, _BASE, _BASE, len(memory), len(memory), 8)
    return header + segment + memory + rela + names + b"".join(sections)
