"""A build context for tests, with whatever a test wants to be different."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import Debian, Target, load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store
from layout import ROOT


def build_context(
    folder: Path,
    target: Target | str = "x86",
    *,
    root: Path = ROOT,
    options: BuildOptions | None = None,
    store: Store | None = None,
    reporter: Reporter | None = None,
    logs: Path | None = None,
    mirrors: tuple[str, ...] = (),
    **changes: object,
) -> BuildContext:
    """Return a context of this project's matrix.

    Args:
        folder: Where stores, output and logs are, if nothing else is said.
        target: The target, or its id in the matrix.
        root: The project's folder.
        options: What the user chose; nothing if not given.
        store: The stores.
        reporter: Told of every step; silent if not given.
        logs: The log folder.
        mirrors: Debian mirrors in place of the matrix's.
        changes: Other parts of the matrix to replace.
    """
    matrix = load_matrix(ROOT)
    if mirrors:
        changes["debian"] = Debian(mirrors=mirrors)
    matrix = matrix.model_copy(update=changes)
    found = matrix.target(target) if isinstance(target, str) else target
    return BuildContext(
        paths=Paths(root, folder, folder / "dist"),
        matrix=matrix,
        target=found,
        options=options or BuildOptions(),
        store=store or Store(folder),
        reporter=reporter or Reporter(found.id, Console(file=io.StringIO())),
        logs=logs or folder / "logs",
    )
