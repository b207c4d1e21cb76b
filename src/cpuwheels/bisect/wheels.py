"""The wheel of a commit, obtained with the least work."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.bisect.background_build import build_in_background
from cpuwheels.bisect.indexed_wheel import wheel_from_index
from cpuwheels.config.paths import Paths
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import (
    AuditError,
    CommandError,
    CompileError,
    ConfigureError,
    PatchError,
    PrecompiledError,
    UnsuitableSourceError,
    UnusableWheelError,
    WheelError,
)
from cpuwheels.pipeline import build
from cpuwheels.pipeline.provenance import read_note

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.bisect.farm_wheels import FarmWheels
    from cpuwheels.bisect.state import WheelFrom
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.pipeline.built_wheel import BuiltWheel

UNBUILDABLE = (
    UnsuitableSourceError,
    PatchError,
    ConfigureError,
    CompileError,
    WheelError,
    AuditError,
    UnusableWheelError,
)
"""Errors that mean that a commit has no usable wheel. Any other error is about this machine, and stops the search."""


@dataclass(frozen=True)
class Got:
    """A commit's wheel.

    Attributes:
        path: The file.
        sha256: Of its bytes.
        wheel_from: How it was obtained.
    """

    path: Path
    sha256: str
    wheel_from: WheelFrom


class Wheels:
    """Gets the wheels of commits, one at a time: a compilation takes every CPU and the whole memory cap anyway."""

    def __init__(
        self,
        root: Path,
        store: Store,
        folder: Path,
        matrix: Matrix,
        target: Target,
        options: BuildOptions,
        index: str | None = None,
        other_matrix: Path | None = None,
        farm: FarmWheels | None = None,
    ) -> None:
        """Take what the builds of a bisection share.

        Args:
            root: The project's folder.
            store: Where everything is kept.
            folder: The bisection's own; each commit has a folder in it.
            matrix: The configuration.
            target: What is built.
            options: Options of the builds; their source is always the commit.
            index: Address of an index that is asked first.
            other_matrix: File of the configuration, if it is not the project's.
            farm: Makes the wheels in place of this machine; several at once.
        """
        self._root, self._folder, self._other_matrix = root, folder, other_matrix
        self.unpacked = folder / "unpacked"
        """What the wheels' files have, each content once; removed when no more wheels are tested."""
        self.store = store
        self.matrix = matrix
        self._target, self._options, self._index = target, options, index
        self.farm = farm
        self._got: dict[str, Got] = {}
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def paths(self, commit: str) -> Paths:
        """Return the folders of one commit's build."""
        return Paths(self._root, self.store.root, self._folder / commit[:12], self._other_matrix)

    def get(self, commit: str, reporter: Reporter) -> Got:
        """Return the wheel of a commit, which is not loaded: that it does not load may be the fault to find.

        Args:
            commit: Full hash.
            reporter: Told of every step.

        Raises:
            CpuwheelsError: Any stage's own error; those of `UNBUILDABLE` are about the commit.
        """
        if commit in self._got:
            return self._got[commit]  # not even waiting for another commit's
        with self._lock_of(commit):
            if commit not in self._got:
                self._got[commit] = self._from_index(commit, reporter) or self._made(commit, reporter)
            return self._got[commit]

    def _lock_of(self, commit: str) -> threading.Lock:
        """Return what keeps a wheel from being made twice, and where this machine makes them, two from being made."""
        if self.farm is None:
            return self._lock
        with self._lock:
            return self._locks.setdefault(commit, threading.Lock())

    def prepare(self, commit: str, reporter: Reporter) -> None:
        """Let another process, at low priority, or the farm make the wheel of a commit, so that `get` finds it.

        Args:
            commit: Full hash.
            reporter: Told of a wheel of the index, which is fetched by this process.

        Raises:
            CpuwheelsError: It cannot be made, or is not needed any more; `get` makes it then, or tells why not.
        """
        if commit in self._got:
            return
        if found := self._from_index(commit, reporter):
            self._got[commit] = found
            return
        if self.farm:
            self.farm.begin(commit)  # it is not waited for
            return
        paths, options = self.paths(commit), replace(self._options, source=commit)
        if options.kernels_from:
            try:
                build_in_background(paths, self._target.id, options)
            except CommandError:
                options = replace(options, kernels_from=None)
            else:
                return
        build_in_background(paths, self._target.id, options)

    def _from_index(self, commit: str, reporter: Reporter) -> Got | None:
        if self._index is None:
            return None
        paths = self.paths(commit)
        path = wheel_from_index(
            self._index, commit, self._target, paths.dist / "index", store=self.store, reporter=reporter
        )
        if path is None or not self._fits(path, reporter):
            return None
        return Got(path, file_digest(path), "index")

    def _fits(self, wheel: Path, reporter: Reporter) -> bool:
        """Return whether an index's wheel has the kernels that are asked for: upstream's own, or fixed ones."""
        try:
            note = read_note(wheel)
        except ValueError:
            return True  # whatever is wrong with it, its test shows
        upstream = note is None or not note.fixed_faults
        if upstream != self._options.upstream_kernels:
            asked = "upstream's own" if self._options.upstream_kernels else "fixed ones"
            reporter.announce(f"{wheel.name} of the index is not used: its kernels are not {asked}")
        return upstream == self._options.upstream_kernels

    def _made(self, commit: str, reporter: Reporter) -> Got:
        if self.farm:
            return Got(*self.farm.get(commit, self.paths(commit).dist, reporter), "farm")
        options = replace(self._options, source=commit)
        if options.kernels_from:
            try:
                finished = self._build(commit, options, reporter)
            except PrecompiledError as error:
                reporter.info(f"{error.what}; compiled if they are not in the store")
            else:
                return Got(finished.path, finished.sha256, "precompiled kernels")
        finished = self._build(commit, replace(options, kernels_from=None), reporter)
        return Got(finished.path, finished.sha256, "build" if finished.compiled else "stored kernels")

    def _build(self, commit: str, options: BuildOptions, reporter: Reporter) -> BuiltWheel:
        return build.build(
            self.paths(commit), self.matrix, self._target.id, options, reporter, check=False, store=self.store
        )
