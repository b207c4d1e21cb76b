"""``tarfile`` with extraction filters (PEP 706): Python's own has them from 3.11.4 on, a backport before."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tarfile
else:
    tarfile = importlib.import_module("tarfile" if sys.version_info >= (3, 11, 4) else "backports.tarfile")

__all__ = ["tarfile"]
