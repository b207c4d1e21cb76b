"""What one run of a command for one target works with; every stage gets it and takes what it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import BuildOptions, ToolchainChoice
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store


@dataclass(frozen=True)
class BuildContext:
    """One run of a command for one target.

    Attributes:
        paths: Folders to read and write.
        matrix: The configuration.
        target: What is built or tested.
        options: What the user chose.
        store: The stores.
        reporter: Reports every step.
        logs: This run's log folder.
    """

    paths: Paths
    matrix: Matrix
    target: Target
    options: BuildOptions
    store: Store
    reporter: Reporter
    logs: Path

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.paths.root

    def lock(self, name: str) -> Path:
        """Return the path of a Python lock."""
        return self.root / "locks" / name

    def for_target(self, target: Target, toolchain: ToolchainChoice) -> BuildContext:
        """Return the context for another target of the same run, such as this machine's own."""
        return replace(self, target=target, options=replace(self.options, toolchain=toolchain))
