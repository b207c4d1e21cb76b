"""Load extension modules the way vLLM does, each in a process of its own, and report which operators it registers.

Runs inside the environment that is checked, as a script: it needs torch and nothing else, so that a missing
dependency of vLLM cannot hide a fault of a library. Importing torch first matters: a module's torch and
OpenMP libraries are those that torch has loaded. It takes most of the time and is the same for all of them, so one
process does it, and then forks for each module.

Each line of its input is a module: how to load it, its path, and the file for the answer. What the loading process
writes goes to a file next to that. When the input ends, one line for each module gives the status of its process,
negative for a signal.
"""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import json
import os
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


def load(kind: str, path: Path, answer: Path) -> None:
    """Load ``path`` as a torch library or as a module and write what it registered to ``answer``."""
    before = operators()
    if kind == "library":
        torch.ops.load_library(str(path))
    else:
        import_module(path)
    found = {name: schema(name) for name in sorted(operators() - before)}
    registered = {name: text for name, text in found.items() if text is not None}
    answer.write_text(json.dumps({"torch": torch.__version__, "operators": registered}), encoding="utf-8")


def main() -> None:
    """Read modules from the input and load each in a process of its own."""
    gc.collect()
    gc.freeze()  # else each process would walk through all of torch's objects once more when it ends
    loading: dict[int, str] = {}
    for line in sys.stdin:
        kind, path, answer, words = json.loads(line)
        child = os.fork()
        if child == 0:
            written = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(written, 1)
            os.dup2(written, 2)
            # It ends like any other process: what a library does when it is unloaded is part of the check.
            load(kind, Path(path), Path(answer))
            return
        loading[child] = path
    while loading:
        child, status = os.wait()
        print(json.dumps([loading.pop(child), os.waitstatus_to_exitcode(status)]), flush=True)


if __name__ == "__main__":
    main()
