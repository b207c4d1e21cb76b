"""Who provides what a Mach-O file takes from others: torch, macOS at the floor's age, or Python.

Modules find symbols in the whole process (``-undefined dynamic_lookup``), so their linker does not miss any: a symbol
that no library has is first missed on the user's Mac. Other systems have no copy of macOS' libraries. Two lists replace
them: the symbols of libSystem that zig knows, and the symbols that torch's own libraries take from macOS. torch's
libraries are for the same floor and are loaded first, so each of these symbols is there.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import yaml

from cpuwheels.core.macho import read_macho

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.core.macho import Import, MachOFacts

SYSTEM = "/usr/lib/libSystem.B.dylib"
STUB = "libSystem.tbd"
"""zig's list of libSystem's symbols."""

_SYSTEM_FOLDERS = ("/usr/lib/", "/System/Library/Frameworks/")
_PYTHON = ("_Py", "__Py")


@dataclass(frozen=True)
class Providers:
    """What is there when a module is loaded.

    Attributes:
        torch: File name of each of torch's libraries that a wheel may use → the symbols it exports.
        system: Install name of each of macOS' libraries → symbols that it is known to export.
    """

    torch: Mapping[str, frozenset[str]]
    system: Mapping[str, frozenset[str]]

    def offers(self, wanted: Import) -> bool:
        """Return whether an import is found where it is looked for."""
        if not wanted.library:
            everywhere = (*self.torch.values(), *self.system.values())
            return wanted.name.startswith(_PYTHON) or any(wanted.name in names for names in everywhere)
        if wanted.library in self.system:
            return wanted.name in self.system[wanted.library]
        return wanted.name in self.torch.get(PurePosixPath(wanted.library).name, frozenset())

    def has(self, library: str) -> bool:
        """Return whether a library may be needed: macOS' own by its path, torch's by ``@rpath``."""
        return library in self.system or (library.startswith("@rpath/") and PurePosixPath(library).name in self.torch)


def providers(folder: Path, excluded: Sequence[str], stub: Path) -> Providers:
    """Return what torch and macOS provide.

    Args:
        folder: Of torch's libraries.
        excluded: File names (wildcards allowed) of those that a wheel may use.
        stub: zig's list of libSystem's symbols.

    Raises:
        ValueError: A library is damaged, or the list cannot be read.
        OSError: A file cannot be read.
    """
    paths = [
        path for path in sorted(folder.iterdir()) if any(fnmatch.fnmatchcase(path.name, name) for name in excluded)
    ]
    facts = {path.name: read_macho(path.read_bytes()) for path in paths}
    system = relied_on(facts.values())
    system[SYSTEM] = system.get(SYSTEM, frozenset()) | stub_symbols(stub.read_text(encoding="utf-8"))
    return Providers({name: found.exports for name, found in facts.items()}, system)


def relied_on(libraries: Iterable[MachOFacts]) -> dict[str, frozenset[str]]:
    """Return install name → symbols of what libraries take from macOS and cannot do without."""
    found: dict[str, set[str]] = {}
    for library in libraries:
        for wanted in library.imports:
            if wanted.library.startswith(_SYSTEM_FOLDERS) and not wanted.weak:
                found.setdefault(wanted.library, set()).add(wanted.name)
    return {name: frozenset(symbols) for name, symbols in found.items()}


class _Stubs(yaml.CSafeLoader):
    """Reads text-based stub files: each document is a plain mapping with a tag."""


def _mapping(loader: _Stubs, node: yaml.MappingNode) -> dict[Any, Any]:
    return cast("dict[Any, Any]", loader.construct_mapping(node, deep=True))


_Stubs.add_constructor("!tapi-tbd", _mapping)


def stub_symbols(text: str, machine: str = "arm64") -> frozenset[str]:
    """Return the symbols of a text-based stub file (version 4) for macOS on a machine.

    Raises:
        ValueError: It is no such file.
    """
    found: set[str] = set()
    try:
        for document in yaml.load_all(text, _Stubs):
            for part in (*document.get("exports", []), *document.get("reexports", [])):
                if any(target.startswith(machine) and target.endswith("-macos") for target in part["targets"]):
                    found.update(part.get("symbols", []), part.get("weak-symbols", []))
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        msg = f"not a text-based stub file: {error}"
        raise ValueError(msg) from error
    return frozenset(found)
