"""The wheel of a commit, however it is got with the least work."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels import pipeline
from cpuwheels.config import Places
from cpuwheels.errors import AuditError, CompileError, ConfigureError, PatchError, UnsuitableSourceError, WheelError

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.bisect.state import WheelFrom
    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Matrix
    from cpuwheels.options import BuildOptions

UNBUILDABLE = (UnsuitableSourceError, PatchError, ConfigureError, CompileError, WheelError, AuditError)
"""What says of a commit that it makes no wheel. Any other error says something of this machine and stops the search."""


@dataclass(frozen=True)
class Got:
    """A commit's wheel.

    Attributes:
        path: The file.
        sha256: Of its bytes.
        wheel_from: How it was got.
    """

    path: Path
    sha256: str
    wheel_from: WheelFrom


class Wheels:
    """Gets the wheels of commits, one at a time: a compilation takes every CPU and the whole memory cap anyway."""

    def __init__(
        self, root: Path, cache: Path, folder: Path, matrix: Matrix, target: str, options: BuildOptions
    ) -> None:
        """Take what the builds of a bisection have in common.

        Args:
            root: The project's folder.
            cache: Root of the stores.
            folder: The bisection's own; each commit has a folder in it.
            matrix: The configuration.
            target: Target id.
            options: Options of the builds; their source is each time the commit.
        """
        self._root, self._cache, self._folder = root, cache, folder
        self.matrix = matrix
        self._target, self._options = target, options
        self._got: dict[str, Got] = {}
        self._lock = threading.Lock()

    def places(self, commit: str) -> Places:
        """Return the folders of one commit's build."""
        return Places(self._root, self._cache, self._folder / commit[:12])

    def get(self, commit: str, reporter: Reporter) -> Got:
        """Return the wheel of a commit, which is not loaded here: that it cannot be may be what is looked for.

        Args:
            commit: Full hash.
            reporter: Told of every step.

        Raises:
            CpuwheelsError: Any stage's own error; those of `UNBUILDABLE` mean the commit.
        """
        with self._lock:
            if commit not in self._got:
                options = replace(self._options, source=commit)
                places = self.places(commit)
                finished = pipeline.build(places, self.matrix, self._target, options, reporter, check=False)
                how: WheelFrom = "build" if finished.compiled else "stored kernels"
                self._got[commit] = Got(finished.path, finished.sha256, how)
            return self._got[commit]
