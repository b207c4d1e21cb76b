"""Writes small ELF files with just the parts that an audit reads."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_EM_X86_64 = 62
_SHT = {"NULL": 0, "PROGBITS": 1, "SYMTAB": 2, "STRTAB": 3, "HASH": 5, "DYNAMIC": 6, "DYNSYM": 11}
_SHT_GNU_HASH, _SHT_VERDEF, _SHT_VERNEED, _SHT_VERSYM = 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_DT = {"NEEDED": 1, "SONAME": 14, "RPATH": 15, "RUNPATH": 29}
_PT_DYNAMIC, _PT_GNU_STACK = 2, 0x6474E551


@dataclass
class Elf:
    needed: tuple[str, ...] = ("libc.so.6",)
    soname: str = ""
    rpath: str = ""
    runpath: str = ""
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Library → version → a symbol that carries it."""
    loose: tuple[str, ...] = ()
    """Undefined symbols without a version."""
    weak: tuple[str, ...] = ()
    """The same, but they may be missing."""
    exports: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """Exported in a version that linkers do not take."""
    defines: tuple[tuple[str, str, bool], ...] = ()
    """Symbols exported in versions of its own: name, version, and whether linkers do not take it."""
    hash: str = "gnu"
    """Kind of the hash table of what is exported: gnu or sysv."""
    symtab: bool = False
    stack: int | None = 6
    """Flags of PT_GNU_STACK (7 is executable); None leaves the segment out."""
    text: bytes = b"code"

    def write(self) -> bytes:
        strings = _Strings()
        dynamic = [(_DT["NEEDED"], strings.add(name)) for name in self.needed]
        for kind, value in (("SONAME", self.soname), ("RPATH", self.rpath), ("RUNPATH", self.runpath)):
            if value:
                dynamic.append((_DT[kind], strings.add(value)))
        verneed, symbols, versym = b"", bytes(24), struct.pack("<H", 0)
        index = 2
        libraries = list(self.versions.items())
        for position, (library, versions) in enumerate(libraries):
            last = position == len(libraries) - 1
            size = 16 + 16 * len(versions)
            verneed += struct.pack("<HHIII", 1, len(versions), strings.add(library), 16, 0 if last else size)
            for count, (version, symbol) in enumerate(versions.items()):
                following = 0 if count == len(versions) - 1 else 16
                verneed += struct.pack("<IHHII", 0, 0, index, strings.add(version), following)
                symbols += struct.pack("<IBBHQQ", strings.add(symbol), 0x12, 0, 0, 0, 0)
                versym += struct.pack("<H", index)
                index += 1
        undefined = [*((1, name) for name in self.loose), *((2, name) for name in self.weak)]
        for bind, name in undefined:
            symbols += struct.pack("<IBBHQQ", strings.add(name), bind << 4 | 2, 0, 0, 0, 0)
            versym += struct.pack("<H", 1)
        first_export = len(symbols) // 24
        for name in (*self.exports, *self.hidden):
            symbols += struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, 6, 0x1000, 4)
            versym += struct.pack("<H", index | 0x8000 * (name in self.hidden))
        verdef, defined, carried = self._definitions(index + 1, strings)
        symbols, versym = symbols + defined, versym + carried
        dynamic.append((0, 0))
        sections = [
            ("", _SHT["NULL"], b"", 0, 0, 0),
            (".dynstr", _SHT["STRTAB"], strings.data, 0, 0, 0),
            (".dynamic", _SHT["DYNAMIC"], b"".join(struct.pack("<QQ", *tag) for tag in dynamic), 1, 0, 16),
            (".dynsym", _SHT["DYNSYM"], symbols, 1, 1, 24),
            (".gnu.version", _SHT_VERSYM, versym, 3, 0, 2),
            (".gnu.version_r", _SHT_VERNEED, verneed, 1, len(libraries), 0),
            (".text", _SHT["PROGBITS"], self.text, 0, 0, 0),
        ]
        if verdef:
            sections.append((".gnu.version_d", _SHT_VERDEF, verdef, 1, len(verdef) // 28, 0))
        if self.exports or self.hidden:
            sections.append(self._hash_table(first_export))
        if self.symtab:
            sections.append((".symtab", _SHT["SYMTAB"], bytes(24), 1, 1, 24))
        return self._layout(sections)

    def _definitions(self, first: int, strings: _Strings) -> tuple[bytes, bytes, bytes]:
        """Return the library's own versions, numbered from the first, the symbols in them, and each one's version."""
        names = list(dict.fromkeys(version for _, version, _ in self.defines))
        verdef, symbols, versym = b"", b"", b""
        for number, version in enumerate(names, first):
            following = 0 if version == names[-1] else 28
            verdef += struct.pack("<HHHHIIIII", 1, 0, number, 1, 0, 20, following, strings.add(version), 0)
        for name, version, is_hidden in self.defines:
            symbols += struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, 6, 0x1000, 4)
            versym += struct.pack("<H", first + names.index(version) | 0x8000 * is_hidden)
        return verdef, symbols, versym

    def _hash_table(self, first: int) -> tuple[str, int, bytes, int, int, int]:
        """Return a table with one bucket, that is, a list of all that is exported."""
        names = (*self.exports, *self.hidden)
        if self.hash == "sysv":
            chain = [0] * first + [first + number + 1 for number in range(len(names))]
            chain[-1] = 0
            return ".hash", _SHT["HASH"], struct.pack(f"<III{len(chain)}I", 1, len(chain), first, *chain), 3, 0, 4
        hashes = [_gnu_hash(name) & ~1 for name in names]
        hashes[-1] |= 1  # the end of the list
        everything = 2**64 - 1  # a filter that lets every name through
        head = struct.pack("<IIIIQI", 1, first, 1, 6, everything, first)
        return ".gnu.hash", _SHT_GNU_HASH, head + struct.pack(f"<{len(hashes)}I", *hashes), 3, 0, 0

    def _layout(self, sections: list[tuple[str, int, bytes, int, int, int]]) -> bytes:
        names = _Strings()
        labels = [names.add(name) for name, *_ in sections]
        labels.append(names.add(".shstrtab"))
        sections = [*sections, (".shstrtab", _SHT["STRTAB"], names.data, 0, 0, 0)]
        segments = 1 if self.stack is None else 2
        offset = 64 + 56 * segments
        body, headers, where = b"", b"", {}
        for label, (name, kind, data, link, info, size) in zip(labels, sections, strict=True):
            where[name] = (offset + len(body), len(data))
            headers += struct.pack("<IIQQQQIIQQ", label, kind, 0, 0, offset + len(body), len(data), link, info, 1, size)
            body += data
        start, length = where[".dynamic"]
        table = struct.pack("<IIQQQQQQ", _PT_DYNAMIC, 6, start, 0, 0, length, length, 8)
        if self.stack is not None:
            table += struct.pack("<IIQQQQQQ", _PT_GNU_STACK, self.stack, 0, 0, 0, 0, 0, 16)
        header = (
            b"\x7fELF\x02\x01\x01"
            + bytes(9)
            + struct.pack(
                "<HHIQQQIHHHHHH",
                3,
                _EM_X86_64,
                1,
                0,
                64,
                offset + len(body),
                0,
                64,
                56,
                segments,
                64,
                len(sections),
                len(sections) - 1,
            )
        )
        return header + table + body + headers


def _gnu_hash(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) % 2**32
    return value


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        offset = len(self.data)
        self.data += text.encode() + b"\0"
        return offset
