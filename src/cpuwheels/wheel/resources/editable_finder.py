"""Installed next to an editable vLLM: finds the kernels and the version that its checkout does not have.

It runs in any environment, so it needs nothing but Python.
"""

import json
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

_HERE = Path(__file__).parent
_FILES: dict[str, str] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""Module → its file below the folder of this one."""


class KernelFinder:
    """A finder of ``sys.meta_path``."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return where a module is; None if it is not one of those."""
        file = _FILES.get(name)
        return spec_from_file_location(name, _HERE / file) if file else None


sys.meta_path.insert(0, KernelFinder())
