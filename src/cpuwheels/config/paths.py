"""Where a run reads and writes: the project's folder, the stores, the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Paths:
    """Folders of a run.

    Attributes:
        root: The project's folder with matrix.yaml, patches/, cmake/ and locks/.
        cache: Root of the stores.
        dist: Where finished wheels appear.
    """

    root: Path
    cache: Path
    dist: Path

    def as_arguments(self) -> list[str | Path]:
        """Return the options of the command line that mean these folders."""
        return ["--root", self.root, "--cache", self.cache, "--dist", self.dist]

    def output(self, target: str, version: str) -> Path:
        """Return the folder of one target's wheel of one version."""
        return self.dist / target / version


def find_root(start: Path) -> Path:
    """Return the nearest folder, from ``start`` upwards, that has a matrix.yaml.

    Raises:
        UsageError: There is none.
    """
    for folder in (start, *start.parents):
        if (folder / "matrix.yaml").is_file():
            return folder
    raise UsageError(
        f"no matrix.yaml in {start} or above it",
        where="working folder",
        next_step="run from the project's folder or pass --root",
    )
