"""Run cpuwheels from the folder that is the first argument, wherever else it is installed."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import runpy
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

NAME = "cpuwheels"


class Finder(importlib.abc.MetaPathFinder):
    """Finds the package, and all that is in it, in one folder; an editable installation would find its own first."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where a module is; None if it is not in the package."""
        del target
        if fullname.partition(".")[0] != NAME:
            return None
        return importlib.machinery.PathFinder.find_spec(fullname, path or [self._folder])


if __name__ == "__main__":
    sys.meta_path.insert(0, Finder(sys.argv.pop(1)))
    runpy.run_module(NAME, run_name="__main__", alter_sys=True)
