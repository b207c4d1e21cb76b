"""Make torch.cpu deny the features that its environment lists, so that vLLM uses the library and code of a lesser CPU.

Python imports this by itself where the folder is on PYTHONPATH. CPUWHEELS_CPU_LACKS names functions of torch.cpu,
separated by commas; vLLM asks them which library to load and which of its kernels to call.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

LACKS = [name for name in os.environ.get("CPUWHEELS_CPU_LACKS", "").split(",") if name]


class Finder(importlib.abc.MetaPathFinder):
    """Finds torch.cpu as usual, with a loader that changes it once it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load a module; None for all others."""
        if name != "torch.cpu":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)
        return spec


class Loader(importlib.abc.Loader):
    """Loads a module and replaces some of its functions."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Leave that to the real loader."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load the module and change it."""
        self.loader.exec_module(module)
        for name in LACKS:
            if hasattr(module, name):
                setattr(module, name, lambda: False)


if LACKS:
    sys.meta_path.insert(0, Finder())
