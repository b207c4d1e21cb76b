"""Load one extension module the way vLLM does and say which operators it registers.

Runs inside the environment that is checked, as a script: it needs torch and nothing else, so that a missing
dependency of vLLM cannot hide a fault of the library. Importing torch first matters: the module's torch and
OpenMP libraries are those that torch has loaded.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path

import torch  # type: ignore[import-not-found,unused-ignore]


def operators() -> set[str]:
    """Return the names of all operators the dispatcher knows, overload included."""
    return set(torch._C._dispatch_get_all_op_names())  # noqa: SLF001  (no public list exists)


def schema(name: str) -> str | None:
    """Return an operator's schema, or None: kernels without a schema are no operator that can be called."""
    qualified, _, overload = name.partition(".")
    try:
        return str(torch._C._get_schema(qualified, overload))  # noqa: SLF001  (no public list exists)
    except RuntimeError:
        return None


def import_module(path: Path) -> None:
    """Import an extension module by its path."""
    name = path.name.partition(".")[0]
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is not an extension module")
    loader.exec_module(importlib.util.module_from_spec(spec))


def main(kind: str, path: Path, answer: Path) -> None:
    """Load ``path`` as a torch library or as a module and write what it registered to ``answer``."""
    before = operators()
    if kind == "library":
        torch.ops.load_library(str(path))
    else:
        import_module(path)
    found = {name: schema(name) for name in sorted(operators() - before)}
    registered = {name: text for name, text in found.items() if text is not None}
    answer.write_text(json.dumps({"torch": torch.__version__, "operators": registered}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
