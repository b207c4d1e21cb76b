"""Stands for the pipeline where a test is about what asks for builds: notes what is asked, and fails if it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpuwheels.config.matrix import Matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.pipeline.built_wheel import BuiltWheel

PLACE = "cpuwheels.pipeline.build.build"
"""What a test replaces with `Builds`."""


@dataclass(frozen=True)
class Asked:
    """One build that was asked for."""

    paths: Paths
    target: str
    options: BuildOptions
    more: dict[str, Any]


class Builds:
    """The builds that were asked for.

    Attributes:
        asked: All of them, in order.
        compiled: Whether their kernels were compiled.
        error: Returns the error that a build ends with, or None.
        wheel: Returns the path of a build's wheel.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.compiled = True
        self.error: Callable[[BuildOptions], CpuwheelsError | None] = lambda _: None
        self.wheel: Callable[[Paths, BuildOptions], Path] = lambda paths, _: paths.dist / "a.whl"

    @property
    def sources(self) -> list[str | None]:
        """The sources of the builds that were asked for."""
        return [asked.options.source for asked in self.asked]

    def __call__(
        self, paths: Paths, _matrix: Matrix, name: str, options: BuildOptions, _reporter: Reporter, **more: Any
    ) -> BuiltWheel:
        self.asked.append(Asked(paths, name, options, more))
        if error := self.error(options):
            raise error
        return BuiltWheel(
            path=self.wheel(paths, options),
            sha256="0" * 64,
            size=1,
            versions=(),
            policy="manylinux_2_28",
            key="key",
            compiled=self.compiled,
            notes=(),
        )
