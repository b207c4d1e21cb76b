"""What jobs take: as earlier ones of their kind did here, else what the measured files of a target add up to."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from cpuwheels.core.store import Store
from cpuwheels.farm.graph import Estimate
from cpuwheels.kernels.memory.costs import read_costs
from cpuwheels.kernels.memory.limits import usable_cpus
from cpuwheels.kernels.memory.plan import MEASURED, SHARED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.paths import Paths
    from cpuwheels.farm.job import JobKind
    from cpuwheels.kernels.memory.costs import Cost

LATEST = 5
"""How many earlier jobs of a kind and target count; of their times the median."""

GUESSES: dict[JobKind, float] = {"kernels": 1200.0, "wheel": 30.0, "parity": 300.0, "serve": 300.0, "rebuild": 1500.0}
"""Seconds of a job of which nothing is known, on two CPUs."""


def estimates(paths: Paths, matrix: Matrix, known: Mapping[tuple[str, str], Sequence[float]]) -> Estimate:
    """Return what jobs are expected to take.

    Args:
        paths: Folders with the measured costs of files: the project's, and the stores with what was learned.
        matrix: The configuration.
        known: Seconds of earlier jobs by kind and target, the latest last.
    """
    tables = {target.id: _costs(paths, target.id) for target in matrix.targets}
    cpus = usable_cpus().count

    def seconds(kind: JobKind, target: str) -> float:
        if earlier := known.get((kind, target)):
            return median(earlier[-LATEST:])
        if kind == "kernels" and (costs := tables.get(target)):
            return sum(cost.seconds for cost in costs.values()) / cpus
        return GUESSES[kind]

    def memory(target: str) -> int:
        costs = tables.get(target) or {}
        return max((cost.bytes for cost in costs.values()), default=0) or matrix.target(target).worst_peak

    return Estimate(seconds, memory)


def _costs(paths: Paths, target: str) -> dict[str, Cost]:
    """Return what each file of a target takes; what was measured here counts before what others measured."""
    name, folders = f"{target}.tsv", list(reversed(Store(paths.cache).folders(MEASURED)))
    tables = [
        paths.root / MEASURED / name,
        *(folder / SHARED / name for folder in folders),
        *(f / name for f in folders),
    ]
    found: dict[str, Cost] = {}
    for table in tables:
        found |= read_costs(table)
    return found
