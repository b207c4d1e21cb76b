"""The modules of the package, and which imports which, as their text says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "cpuwheels"


@dataclass(frozen=True)
class Import:
    """One import of a module of the package.

    Attributes:
        name: The module, such as ``core.process``.
        line: Where it is imported.
        typing: Whether it is under ``TYPE_CHECKING``, so that it is not imported at run time.
    """

    name: str
    line: int
    typing: bool


def modules(package: Path) -> dict[str, Path]:
    """Return the files of a package's modules by their names without the package's; packages by their own."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: Mapping[str, Path]) -> Iterator[Import]:
    """Yield what a file imports of the package, wherever in the file.

    Args:
        path: The file.
        known: The package's modules.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = (node for node in ast.walk(tree) if isinstance(node, ast.If) and _is_typing(node))
    typing = {node for block in blocks for each in block.body for node in ast.walk(each)}
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)):
        for dotted in _named(node):
            name = dotted.removeprefix(f"{PACKAGE}.")
            # The last part is a module, or what is taken out of one.
            found = name if name in known else name.rpartition(".")[0]
            yield Import(found, node.lineno, node in typing)


def public_names(path: Path) -> set[str]:
    """Return the names without an underscore that a module defines at its top."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    """Return the modules that one imports, directly or through others."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def _is_typing(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _named(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the dotted names of the package that an import statement names."""
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        names = [alias.name for alias in node.names]
    return [name for name in names if name.startswith(f"{PACKAGE}.")]
