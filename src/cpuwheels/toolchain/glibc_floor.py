"""A sysroot made to look as old as the target's floor, whatever age its packages are.

Debian's oldest available C library may be newer than the floor. What the linker sees of it is lowered: each
symbol in the newest version that the policy allows. So a kernel that would need a newer one takes the older,
or does not find it, and headers that check the C library's version see the floor's.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain.symbol_versions import Definition, lowered

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.platform_policy import Policy

RECIPE = 1
"""Increased when the same packages and policy would give another sysroot."""

_HIDDEN = 0x8000  # <elf.h> VERSYM_HIDDEN
_MINOR = re.compile(r"^(#define\s+__GLIBC_MINOR__\s+)(\d+)", re.MULTILINE)


def apply_floor(root: Path, policy: Policy) -> None:
    """Lower every shared library and the C library's headers below ``root``.

    Raises:
        ToolchainError: The headers do not name the C library that they belong to.
    """
    for pattern in ("lib/**/*.so*", "lib64/**/*.so*", "usr/lib/**/*.so*"):
        for path in sorted(root.glob(pattern)):
            if path.is_file() and not path.is_symlink():
                lower_library(path, policy)
    lower_header(root / "usr/include/features.h", policy)


def lower_library(path: Path, policy: Policy) -> int:
    """Lower a library in place, and return how many of its symbols changed; a text file has none."""
    with path.open("r+b") as stream:
        try:
            elf = ELFFile(stream)
        except ELFError:  # a linker script such as libc.so
            return 0
        table, versions, nodes = (
            elf.get_section_by_name(name) for name in (".dynsym", ".gnu.version", ".gnu.version_d")
        )
        if not (
            isinstance(table, SymbolTableSection)
            and isinstance(versions, GNUVerSymSection)
            and isinstance(nodes, GNUVerDefSection)
        ):
            return 0
        names = {found["vd_ndx"]: next(iter(parts)).name for found, parts in nodes.iter_versions()}
        order = "<" if elf.little_endian else ">"
        layout = struct.Struct(f"{order}{versions.num_symbols()}H")
        stream.seek(versions["sh_offset"])
        raw = list(layout.unpack(stream.read(layout.size)))
        places, definitions = [], []
        for number, symbol in enumerate(table.iter_symbols()):
            node = names.get(raw[number] & ~_HIDDEN)
            if symbol["st_shndx"] not in {"SHN_UNDEF", "SHN_ABS"} and node is not None:
                places.append(number)
                definitions.append(Definition(symbol.name, node, bool(raw[number] & _HIDDEN)))
        changed = 0
        for place, definition, hidden in zip(places, definitions, lowered(definitions, policy), strict=True):
            if hidden != definition.hidden:
                raw[place] ^= _HIDDEN
                changed += 1
        stream.seek(versions["sh_offset"])
        stream.write(layout.pack(*raw))
    return changed


def lower_header(features: Path, policy: Policy) -> None:
    """Make ``<features.h>`` name the floor's version of the C library if its own is newer.

    Raises:
        ToolchainError: It is missing, names no version, or one of another major number.
    """
    text = features.read_text() if features.is_file() else ""
    found = _MINOR.search(text)
    major, minor = policy.glibc
    if found is None or not re.search(rf"^#define\s+__GLIBC__\s+{major}$", text, re.MULTILINE):
        raise ToolchainError(
            f"the sysroot's headers are not of a C library {major}.x",
            where=features,
            next_step="add libc6-dev to the lock's suites and run `nox -s lock`",
        )
    if int(found[2]) > minor:
        features.write_text(_MINOR.sub(rf"\g<1>{minor}", text))
