"""What the audit reads of a Mach-O file: machine, oldest system, needed libraries and symbols, and its signature.

LIEF parses load commands and bindings; the code directory is checked here, page by page (its layout is that of
``<kern/cs_blobs.h>`` in Apple's XNU sources).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import lief

MAGIC = b"\xcf\xfa\xed\xfe"
"""First bytes of a 64-bit little-endian file."""

_FAT = (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
_WEAK_REFERENCE = 0x40  # <mach-o/nlist.h> N_WEAK_REF
_ORDINAL_SHIFT = 8  # <mach-o/nlist.h> GET_LIBRARY_ORDINAL
_FLAT = ""
_CODE = "__text"

_SUPER_BLOB: Final = struct.Struct(">III")
_BLOB_INDEX: Final = struct.Struct(">II")
_CODE_DIRECTORY: Final = struct.Struct(">IIIIIIIIIBBBB")
_SUPER_MAGIC = 0xFADE0CC0
_DIRECTORY_MAGIC = 0xFADE0C02
_ADHOC = 0x2
_SHA256 = 2


@dataclass(frozen=True, order=True)
class Import:
    """A symbol that another file has to provide.

    Attributes:
        name: As the linker knows it, with its leading underscore.
        library: Install name of the library that it is bound to; empty if it is looked for in the whole process.
        weak: Whether it may be missing.
    """

    name: str
    library: str
    weak: bool = False


@dataclass(frozen=True)
class Code:
    """Where a file's instructions are.

    Attributes:
        address: Of the first, when it is loaded.
        start: Of the first, in the file.
        size: Bytes.
    """

    address: int
    start: int
    size: int


@dataclass(frozen=True)
class MachOFacts:
    """Facts of one Mach-O file.

    Attributes:
        machine: As in platform tags, such as ``arm64``.
        minimum_os: Oldest macOS that it is for, such as (14, 0); None if it names none, or is for another system.
        name: Its own install name, empty if it has none.
        needed: Install names of the libraries that are loaded with it.
        search_path: Folders that ``@rpath`` stands for.
        imports: Undefined symbols, sorted.
        exports: Symbols that it offers to others.
        signature_faults: What is wrong with its signature; empty if every page is as it was signed.
        code: Where its instructions are; None if it has none.
    """

    machine: str
    minimum_os: tuple[int, int] | None
    name: str
    needed: tuple[str, ...]
    search_path: tuple[str, ...]
    imports: tuple[Import, ...]
    exports: frozenset[str]
    signature_faults: tuple[str, ...]
    code: Code | None


def is_macho(start: bytes) -> bool:
    """Return whether a file that begins with these four or more bytes is a Mach-O file, for one machine or several."""
    return start[:4] in {MAGIC, *_FAT}


def read_macho(content: bytes) -> MachOFacts:
    """Return the facts of a file.

    Raises:
        ValueError: It is damaged, or not for exactly one 64-bit machine.
    """
    binary, _owner = _parsed(content)
    import lief  # noqa: PLC0415  (50 MiB that a build for another system should not hold)

    libraries = [(command.command, command.name) for command in binary.libraries]
    own = [name for kind, name in libraries if kind == lief.MachO.LoadCommand.TYPE.ID_DYLIB]
    version = binary.build_version
    for_macos = version is not None and version.platform == lief.MachO.BuildVersion.PLATFORMS.MACOS
    needed = tuple(name for kind, name in libraries if kind != lief.MachO.LoadCommand.TYPE.ID_DYLIB)
    signature = binary.code_signature
    exports = frozenset(str(symbol.name) for symbol in binary.exported_symbols)
    return MachOFacts(
        machine=binary.header.cpu_type.name.lower(),
        minimum_os=(version.minos[0], version.minos[1]) if for_macos and version is not None else None,
        name=own[0] if own else "",
        needed=needed,
        search_path=tuple(command.path for command in binary.rpaths),
        imports=tuple(sorted(set(_imports(binary, needed, exports)))),
        exports=exports,
        signature_faults=("is not signed",)
        if signature is None
        else tuple(signature_faults(content, signature.data_offset)),
        code=next(
            (Code(each.virtual_address, each.offset, each.size) for each in binary.sections if each.name == _CODE), None
        ),
    )


def signature_faults(content: bytes, start: int) -> Iterator[str]:
    """Yield what is wrong with the signature that begins at an offset of a file.

    A signature of the linker's own kind is required: ad hoc, with a SHA-256 of every page up to itself. Without one
    the kernel ends a process on Apple silicon that uses the page.
    """
    try:
        magic, _, count = _SUPER_BLOB.unpack_from(content, start)
        blobs = [_BLOB_INDEX.unpack_from(content, start + 12 + 8 * number) for number in range(count)]
        directories = [offset for kind, offset in blobs if kind == 0]
        if magic != _SUPER_MAGIC or not directories:
            yield "has a signature without a code directory"
            return
        begin = start + directories[0]
        magic, _, _, flags, hashes, _, _, pages, limit, size, kind, _, shift = _CODE_DIRECTORY.unpack_from(
            content, begin
        )
    except struct.error:
        yield "has a signature that is cut off"
        return
    if magic != _DIRECTORY_MAGIC or kind != _SHA256 or size != hashlib.sha256().digest_size:
        yield "has a code directory of an unknown kind"
        return
    if not flags & _ADHOC:
        yield "is signed by somebody, not ad hoc"
    page = 1 << shift
    if limit != start or pages != -(-limit // page):
        yield f"has a signature of {limit} bytes in {pages} pages, and {start} bytes before it"
        return
    for number in range(pages):
        expected = content[begin + hashes + number * size :][:size]
        if hashlib.sha256(content[number * page : min((number + 1) * page, limit)]).digest() != expected:
            yield f"is not what was signed: page {number} differs"
            return


def _parsed(content: bytes) -> tuple[lief.MachO.Binary, lief.MachO.FatBinary]:
    """Return a file as LIEF reads it, and what has to live as long as that is used."""
    if content[:4] != MAGIC:
        msg = "not a Mach-O file for one 64-bit machine"
        raise ValueError(msg)
    import lief  # noqa: PLC0415  (50 MiB that a build for another system should not hold)

    # LIEF would write what it finds odd to stderr; what matters here is in the facts.
    lief.logging.disable()
    parsed = lief.MachO.parse(content)
    if not isinstance(parsed, lief.MachO.FatBinary) or parsed.size != 1 or (binary := parsed.at(0)) is None:
        msg = "a damaged Mach-O file"
        raise ValueError(msg)
    return binary, parsed


def _imports(binary: lief.MachO.Binary, needed: Sequence[str], exports: frozenset[str]) -> Iterator[Import]:
    """Yield what the file takes from others: its undefined symbols, and what the loader is told to bind.

    For a symbol that several files may define, the symbol table names one library; the loader takes the first.
    """
    # The loader first puts the file's own definition there, and keeps it if no other file has one to share; see
    # forEachBindTarget in dyld's Loader.cpp (dyld-1378).
    own = {relocation.address for relocation in binary.relocations}
    bound: dict[str, str] = {}
    for binding in binary.bindings:
        if _coalesced(binding) and binding.address in own:
            continue
        if binding.has_symbol and binding.symbol is not None:
            library = binding.library if binding.has_library else None
            name = str(binding.symbol.name)
            bound[name] = bound.get(name) or (_FLAT if library is None else str(library.name))
    for symbol in binary.imported_symbols:
        name, ordinal = str(symbol.name), symbol.description >> _ORDINAL_SHIFT
        stated = needed[ordinal - 1] if 0 < ordinal <= len(needed) else _FLAT
        yield Import(name, bound.pop(name, _FLAT) or stated, bool(symbol.description & _WEAK_REFERENCE))
    # What is exported and bound is one of several equal definitions too.
    yield from (Import(name, library) for name, library in bound.items() if name not in exports)


def _coalesced(binding: lief.MachO.BindingInfo) -> bool:
    """Return whether it is for one of several equal definitions, such as an inline function's."""
    kind = getattr(binding, "binding_class", None)
    return kind is not None and kind.name == "WEAK"
