"""The lock of a wheel that is there, such as one of a locked build, which resolves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.config.host import markers
from cpuwheels.config.options import BuildOptions
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.pylock import write_pylock
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter


def lock_wheel(paths: Paths, matrix: Matrix, name: str, wheel: Path, reporter: Reporter) -> Path | None:
    """Resolve what a wheel requires, and write its ``pylock.toml`` next to it; announce why if there is none.

    It is no part of the wheel's build: other requests are made than those that are listed for it, and the wheel and its
    record stay as they are.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        wheel: A wheel of that target.
        reporter: Told of it.

    Raises:
        UnusableWheelError: It is not a wheel of that target.
        StoreError: The stores or the output folder cannot be written.
    """
    target = matrix.buildable(name)
    read_wheel(wheel, target, markers(target, matrix.python[0]), "WHEEL")
    context = open_context(paths, matrix, target, BuildOptions(), reporter)
    with reporter.stage("lock", f"what {wheel.name} requires, with digests"):
        return write_pylock(context, wheel)
