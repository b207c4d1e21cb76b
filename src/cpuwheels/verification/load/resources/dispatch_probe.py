"""Import a chooser by its path and print which library it has loaded.

Runs where the wheel is installed, as a script, with torch and nothing else: the package that the chooser is in needs
all of vLLM's requirements, and is not imported.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys

import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: F401  (its libraries have to be there)


def main() -> None:
    """Import the module whose name and path are the arguments."""
    name, path = sys.argv[1:]
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    print(json.dumps(module.__isa__))


if __name__ == "__main__":
    main()
