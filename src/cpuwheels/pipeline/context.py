"""The context of a run: stores and output folder checked, a log folder made."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from cpuwheels.config.context import BuildContext
from cpuwheels.core.environ import LIBRARY
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.store import Store
from cpuwheels.pipeline.dist import new_logs

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter


def open_context(
    paths: Paths, matrix: Matrix, target: Target, options: BuildOptions, reporter: Reporter, store: Store | None = None
) -> BuildContext:
    """Check that the stores and the output folder can be written, and return the context.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        target: What is built.
        options: What the user chose.
        reporter: Told of every step.
        store: The open store of these paths, if there is one; several contexts may share it.

    Raises:
        StoreError: One of them cannot be written.
    """
    with storage_errors(paths.cache):
        paths.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=paths.cache):
            pass
    store = store or Store(paths.cache)
    with storage_errors(paths.cache):
        store.remove_stale_work()
    logs = new_logs(paths, target.id)
    reporter.info(f"logs: {logs}")
    if paths.other_matrix:
        reporter.info(f"configuration: {paths.other_matrix}")
    if loaded := os.environ.get(LIBRARY):
        reporter.announce(f"every command loads {loaded}, as in a second build: {LIBRARY} is set")
    return BuildContext(paths, matrix, target, options, store, reporter, logs)
