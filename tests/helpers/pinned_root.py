"""Programs of pinned Debian packages that tests run: web servers, databases, what checks signatures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store, default_root
from cpuwheels.fetch.debian.mirrors import mirrors
from cpuwheels.fetch.debian.root import unpacked_root
from cpuwheels.toolchain.debian_compiler import relocate
from layout import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def pinned_root(name: str, kind: str, finish: Callable[[Path, Path], None] = relocate) -> Path:
    """Return the unpacked packages of ``locks/<name>-amd64.yaml``, kept in the stores of the tests.

    Args:
        name: Of the lock.
        kind: Of the store's entry.
        finish: Makes the programs run; given the folder that they are in, and the one that they will be in.
    """
    return unpacked_root(
        load_lock(ROOT, f"{name}-amd64"),
        kind,
        mirrors=mirrors(load_matrix(ROOT).debian.mirrors, os.environ),
        store=Store(default_root() / "tests"),
        reporter=Reporter("tests"),
        finish=finish,
        finish_key=name if finish is relocate else f"{name} {finish.__name__}",
    )
