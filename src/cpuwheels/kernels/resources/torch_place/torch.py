"""Says where torch's files are, as upstream's CMake project asks it. torch itself takes two seconds each time.

First on the path of the programs that CMake starts. A program that may ask anything else gets its environment's torch.
"""

from __future__ import annotations

import ast
import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace

_ANSWERED = {"torch.__file__", "torch.utils.cmake_prefix_path"}


def _program() -> str:
    """Return the program that ``python -c`` runs; nothing if this is another one."""
    words = sys.orig_argv[1:]
    return words[1] if words[:1] == ["-c"] and len(words) > 1 else ""


def _asks_only_where(program: str) -> bool:
    """Return whether a program reads nothing of torch but its places, and nothing else that it imports could."""
    nodes = list(ast.walk(ast.parse(program)))
    answered = [node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node) in _ANSWERED]
    named = [node for node in nodes if isinstance(node, ast.Name) and node.id == "torch"]
    imported = {
        name.name if not name.asname else "" for node in nodes if isinstance(node, ast.Import) for name in node.names
    }
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    known = {name for name in imported if name.partition(".")[0] in sys.stdlib_module_names}
    return imported - known == {"torch"} and len(named) == len(answered) > 0


sys.path.remove(str(Path(__file__).parent))
_found = PathFinder.find_spec("torch")
if _found and _found.origin and _asks_only_where(_program()):
    __file__ = _found.origin
    utils = SimpleNamespace(cmake_prefix_path=str(Path(__file__).with_name("share") / "cmake"))
else:
    del sys.modules["torch"]
    importlib.import_module("torch")
