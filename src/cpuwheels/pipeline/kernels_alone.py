"""The kernels of a source without its wheel, and their audit: for the wheels of all commits that have the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import AuditError
from cpuwheels.pipeline.build import assembled
from cpuwheels.pipeline.new_wheel import audit_ahead

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter


def build_kernels(
    paths: Paths, matrix: Matrix, name: str, options: BuildOptions, reporter: Reporter
) -> tuple[str, str]:
    """Compile the kernels of a source into the store, as a build of its wheel would, and audit them.

    Kernels that fail the audit stay: each of their wheels fails with it, and says why. Arguments as
    `cpuwheels.pipeline.build.build`.

    Returns:
        The key of the kernels and that of their audit, which is empty if the stores have none.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    with assembled(paths, matrix, name, options, reporter, ends=("audit",)) as (context, assembly):
        try:
            audit = audit_ahead(context, assembly)
        except AuditError as error:
            reporter.announce(f"the kernels fail their audit: {error.what}")
            audit = ""
    return assembly.provenance.kernel_key, audit
