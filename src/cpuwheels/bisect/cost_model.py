"""The cost of testing a commit: little where its kernels are cached, a compilation where they are not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cpuwheels.core.direct_mode import latest_reads
from cpuwheels.kernels.build import KIND as KERNELS
from cpuwheels.kernels.commit_fingerprints import kernel_fingerprints
from cpuwheels.kernels.depfile import KIND as READS
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.fingerprint import KIND as CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpuwheels.bisect.state import Probe
    from cpuwheels.core.store import Store
    from cpuwheels.source.repository import Repository

ASSEMBLED_SECONDS = 30.0
"""To make a wheel of cached kernels, and to test it."""

COMPILED_SECONDS = 1200.0
"""To compile kernels on two CPUs. Only the ratio of the two matters: it decides how far from the middle of the range a
cheap commit may be and still be tested."""

UNBUILDABLE_SECONDS = 100 * COMPILED_SECONDS
"""For a commit with the kernels of one that does not build: it tells nothing, so nearly any other is better."""

_LATEST = 3


class Costs:
    """The seconds that commits are expected to take; they fall as kernels become available."""

    def __init__(self, classes: Sequence[dict[str, str]], at_hand: Iterable[str]) -> None:
        """Take the classes of the commits.

        Args:
            classes: By commit; one mapping for each way to tell them apart, the first for kernels that become
                available.
            at_hand: Those whose kernels are in the store.
        """
        self._classes = classes
        self._at_hand = set(at_hand)
        self._unbuildable: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, commit: str) -> float:
        """Return the seconds for a commit."""
        with self._lock:
            own = self._of(commit)
            if own & self._at_hand:
                return ASSEMBLED_SECONDS
            return UNBUILDABLE_SECONDS if own & self._unbuildable else COMPILED_SECONDS

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

    def _of(self, commit: str) -> set[str]:
        return {classes[commit] for classes in self._classes if commit in classes}

    @property
    def different(self) -> int:
        """The least number of different kernels that the commits have."""
        return min((len(set(classes.values())) for classes in self._classes), default=0)


def costs_of(repository: Repository, commits: Sequence[str], store: Store, target: str) -> Costs:
    """Return the expected cost of commits, from what earlier builds depended on and left in the store.

    Raises:
        BisectError: git cannot tell their files.
    """
    marks = [path for folder in store.folders(CLASSES) for path in (folder / target).glob("[!.]*")]
    at_hand = [path.name for path in marks if store.has(KERNELS, path.read_text().strip())]
    return Costs(kernel_fingerprints(repository, commits, [*latest_reads(store, READS, Reads, _LATEST), None]), at_hand)
