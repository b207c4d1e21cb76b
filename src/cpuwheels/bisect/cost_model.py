"""The cost of testing a commit: little where its kernels are cached, and more the less of them is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cpuwheels.core.direct_mode import latest_reads
from cpuwheels.kernels.build import KIND as KERNELS
from cpuwheels.kernels.commit_fingerprints import by_programs, by_reads, commit_fingerprints
from cpuwheels.kernels.depfile import KIND as READS
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.fingerprint import KIND as CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpuwheels.bisect.state import Probe
    from cpuwheels.core.store import Store
    from cpuwheels.source.repository import Repository

ASSEMBLED_SECONDS = 4.0
"""To make a wheel of cached kernels, and to test it."""

RECOMPILED_SECONDS = 30.0
"""To compile what of the kernels differs from those of a commit that shares the compiler cache, on two CPUs."""

COMPILED_SECONDS = 600.0
"""To compile all kernels on two CPUs. Only the ratios matter: they decide how far from the middle of the range a cheap
commit may be and still be tested. Measured on 2026-11-29 (docs/speed.md, Bisections)."""

UNBUILDABLE_SECONDS = 100 * COMPILED_SECONDS
"""For a commit with the kernels of one that does not build: it tells nothing, so nearly any other is better."""

_LATEST = 3


class Costs:
    """The seconds that commits are expected to take; they fall as kernels become available."""

    def __init__(
        self, classes: Sequence[dict[str, str]], at_hand: Iterable[str], programs: Mapping[str, str] | None = None
    ) -> None:
        """Take the classes of the commits.

        Args:
            classes: By commit; one mapping for each way to tell their kernels apart.
            at_hand: Those whose kernels are in the store.
            programs: By commit, the class of those that share a compiler cache.
        """
        self._classes, self._programs = classes, programs or {}
        self._at_hand = set(at_hand)
        self._cached = {self._programs[commit] for commit in self._programs if self._of(commit) & self._at_hand}
        self._unbuildable: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, commit: str) -> float:
        """Return the seconds for a commit."""
        with self._lock:
            own = self._of(commit)
            if own & self._at_hand:
                return ASSEMBLED_SECONDS
            if own & self._unbuildable:
                return UNBUILDABLE_SECONDS
            return RECOMPILED_SECONDS if self._programs.get(commit) in self._cached else COMPILED_SECONDS

    def is_at_hand(self, commit: str) -> bool:
        """Return whether a commit's kernels are in the store, as far as its files show."""
        return self(commit) == ASSEMBLED_SECONDS

    def learn(self, probe: Probe) -> None:
        """Note that the kernels of a commit are cached now, or that they cannot be made."""
        with self._lock:
            if probe.wheel_from == "none":
                self._unbuildable |= self._of(probe.commit)
            elif probe.wheel_from != "index":
                self._at_hand |= self._of(probe.commit)
            if probe.wheel_from in {"build", "stored kernels"} and probe.commit in self._programs:
                self._cached.add(self._programs[probe.commit])

    def _of(self, commit: str) -> set[str]:
        return {classes[commit] for classes in self._classes if commit in classes}

    def different(self, commits: Sequence[str]) -> int:
        """Return the least number of different kernels that commits have."""
        return min((len({classes[commit] for commit in commits}) for classes in self._classes), default=0)


def costs_of(repository: Repository, commits: Sequence[str], store: Store, target: str) -> Costs:
    """Return the expected cost of commits, from what earlier builds depended on and left in the store.

    Raises:
        BisectError: git cannot tell their files.
    """
    marks = [path for folder in store.folders(CLASSES) for path in (folder / target).glob("[!.]*")]
    at_hand = [path.name for path in marks if store.has(KERNELS, path.read_text().strip())]
    ways = [by_reads(reads) for reads in latest_reads(store, READS, Reads, _LATEST)]
    *classes, programs = commit_fingerprints(repository, commits, [*ways, None, by_programs])
    return Costs(classes, at_hand, programs)
