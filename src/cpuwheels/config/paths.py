"""Where a run reads and writes: the project's files, the stores, the output.

The project's files (matrix.yaml, patches, locks, …) are in one of two places. In a checkout they are at its top. An
installed wheel of this package has them in its folder ``data``, under the same names, and nothing is written there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cpuwheels.core.errors import CheckoutError

PACKAGE = Path(__file__).parents[1]
"""This package's folder."""

MATRIX = "matrix.yaml"

_PARTS = (MATRIX, "patches", "cmake", "locks")
"""What a folder has that is used as a project, not only for its matrix."""


@dataclass(frozen=True)
class Paths:
    """Folders of a run.

    Attributes:
        root: The folder with the project's files: patches/, cmake/, csrc/, locks/, measured/, tests/parity/.
        cache: Root of the stores.
        dist: Where finished wheels appear.
        other_matrix: A matrix that replaces the one in ``root``.
    """

    root: Path
    cache: Path
    dist: Path
    other_matrix: Path | None = None

    @property
    def matrix(self) -> Path:
        """The file of the configuration."""
        return self.other_matrix or self.root / MATRIX

    @property
    def names(self) -> dict[Path, str]:
        """What is written in place of each folder where people on other machines read it."""
        return {self.cache: "$CPUWHEELS_CACHE", self.dist: "dist", self.root: ".", Path.home(): "~"}

    def as_arguments(self) -> list[str | Path]:
        """Return the options of the command line that mean these folders."""
        folders: list[str | Path] = ["--root", self.root, "--cache", self.cache, "--dist", self.dist]
        return [*folders, "--matrix", self.other_matrix] if self.other_matrix else folders

    def output(self, target: str, version: str) -> Path:
        """Return the folder of one target's wheel of one version."""
        return self.dist / target / version

    def require_checkout(self, command: str) -> None:
        """Refuse a command that writes into the project, if the project's files are those of an installed package.

        Args:
            command: As the user gave it.

        Raises:
            CheckoutError: They are.
        """
        if is_packaged() and self.root == project_files():
            raise CheckoutError(
                f"{command} writes into the project's files, and an installed package keeps its own as they are",
                where=self.root,
                next_step="run it in a checkout of the project, or name one with --root",
            )


def is_packaged() -> bool:
    """Return whether this code is an installed package that has the project's files with it."""
    return (PACKAGE / "data" / MATRIX).is_file()


def project_files() -> Path:
    """Return the folder with the project's files that belong to this code."""
    return PACKAGE / "data" if is_packaged() else PACKAGE.parents[1]


def find_project(start: Path) -> Path | None:
    """Return the nearest folder, from ``start`` upwards, that has a project's files, or None."""
    folders = (start, *start.parents)
    return next((folder for folder in folders if all((folder / part).exists() for part in _PARTS)), None)


def resolve_paths(
    here: Path, cache: Path, *, root: Path | None = None, matrix: Path | None = None, dist: Path | None = None
) -> Paths:
    """Return the folders of a run.

    In a project, its files are used, and its ``dist`` is the output folder. Anywhere else the files are those that
    belong to this code, and the output folder is ``dist`` in the working folder, whose matrix.yaml is used if there is
    one.

    Args:
        here: The working folder.
        cache: Root of the stores.
        root: The project, if it is not the one around the working folder.
        matrix: File of the configuration, if it is not the project's.
        dist: Output folder.
    """
    project = root or find_project(here)
    if project is None and matrix is None and (here / MATRIX).is_file():
        matrix = here / MATRIX
    return Paths(project or project_files(), cache, dist or (project or here) / "dist", matrix)
