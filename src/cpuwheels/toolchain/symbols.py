"""Which of libstdc++'s symbols a wheel may take from the user's machine, and text for a stub of them."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from cpuwheels.errors import ToolchainError

if TYPE_CHECKING:
    from pathlib import Path

LIBRARIES = ("GLIBCXX", "CXXABI")
"""Version families of libstdc++.so.6."""

_HIDDEN = 0x8000  # <elf.h> VERSYM_HIDDEN: an older version of the symbol, which the linker never picks
_KINDS = {"STT_FUNC": "function", "STT_TLS": "tls_object"}
_SECTIONS = {"function": ".text", "tls_object": '.section .tbss,"awT",%nobits', "object": ".data"}


@dataclass(frozen=True)
class Symbol:
    """A symbol that a library defines.

    Attributes:
        name: Mangled.
        version: Its version node, such as ``GLIBCXX_3.4.11``.
        kind: ``function``, ``object`` or ``tls_object``.
        size: Bytes, of data.
    """

    name: str
    version: str
    kind: str
    size: int


def allowed_nodes(policies: str, floor: str, machine: str) -> frozenset[str]:
    """Return the version nodes of libstdc++ that a platform policy allows.

    Args:
        policies: Text of auditwheel's ``manylinux-policy.json``.
        floor: A policy or one of its aliases, such as ``manylinux_2_28``.
        machine: As in the policy, such as ``x86_64``.

    Raises:
        ToolchainError: There is no such policy for that machine.
    """
    for policy in json.loads(policies):
        if floor in (policy["name"], *policy.get("aliases", ())):
            versions = policy["symbol_versions"].get(machine)
            if versions is not None:
                return frozenset(f"{name}_{node}" for name in LIBRARIES for node in versions.get(name, ()))
    raise ToolchainError(
        f"auditwheel knows no policy {floor} for {machine}",
        where="matrix.yaml: the target's floor",
        next_step="name a policy of auditwheel, such as manylinux_2_28, or update auditwheel",
    )


def policy_text() -> str:
    """Return auditwheel's own table of Linux platform policies."""
    return importlib.resources.files("auditwheel.policy").joinpath("manylinux-policy.json").read_text("utf-8")


def read_symbols(library: Path) -> tuple[list[Symbol], list[tuple[str, tuple[str, ...]]]]:
    """Read a shared library's symbols in their default version, and its version nodes with their parents.

    Raises:
        ToolchainError: It is not a library with versioned symbols.
    """
    with library.open("rb") as stream:
        elf = ELFFile(stream)
        table, versions, nodes = (
            elf.get_section_by_name(name) for name in (".dynsym", ".gnu.version", ".gnu.version_d")
        )
        if not (
            isinstance(table, SymbolTableSection)
            and isinstance(versions, GNUVerSymSection)
            and isinstance(nodes, GNUVerDefSection)
        ):
            raise ToolchainError(f"{library.name} has no versioned symbols", where=library)
        names: dict[int, str] = {}
        tree: list[tuple[str, tuple[str, ...]]] = []
        for definition, parts in nodes.iter_versions():
            name, *parents = (part.name for part in parts)
            names[definition["vd_ndx"]] = name
            tree.append((name, tuple(parents)))
        symbols = []
        for number, entry in enumerate(table.iter_symbols()):
            index = versions.get_symbol(number)["ndx"]
            is_defined = entry["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS")
            if is_defined and isinstance(index, int) and not index & _HIDDEN and index in names:
                kind = _KINDS.get(entry["st_info"]["type"], "object")
                symbols.append(Symbol(entry.name, names[index], kind, entry["st_size"]))
    return symbols, tree


def assembly(symbols: list[Symbol], allowed: frozenset[str]) -> str:
    """Return assembler text that defines the allowed symbols, in their versions, with nothing behind them."""
    lines = []
    kept = sorted((symbol.name, symbol.version, symbol) for symbol in symbols if symbol.version in allowed)
    for number, (_, _, symbol) in enumerate(kept):
        label = f"s{number}"
        space = 1 if symbol.kind == "function" else max(symbol.size, 1)
        lines += [
            _SECTIONS[symbol.kind],
            f".globl {label}",
            f".type {label},%{symbol.kind}",
            f"{label}: .skip {space}",
            f".size {label},{space}",
            f".symver {label},{symbol.name}@@{symbol.version},remove",
        ]
    return "\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""])


def version_script(tree: list[tuple[str, tuple[str, ...]]], allowed: frozenset[str]) -> str:
    """Return a linker version script with the allowed nodes, each after its allowed parents."""
    lines = []
    for name, parents in tree:
        if name in allowed:
            kept = [parent for parent in parents if parent in allowed]
            lines.append(" ".join([name, "{}", *kept]) + ";")
    return "\n".join([*lines, ""])
