"""The results that the page is made from, as the benchmarks wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import bisectbench.results as bisections
import buildbench.results as builds
import simulation
from pydantic import BaseModel, ConfigDict, ValidationError

from cpuwheels.core.errors import UsageError
from cpuwheels.verification.benchmark.ratio import geometric_mean
from cpuwheels.verification.serve_bench.result import ServeBench

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BUILDS, MACHINES, BISECTIONS = "builds.json", "machines.json", "bisections.json"
KERNELS, SERVED = "kernels", "served"
"""Files and folders below the results. The two folders have one of each comparison, named after the other side."""

HANDLERS = "create_"
"""Operators with this prefix pack weights once for each model, and are not in the mean that has a target."""

_Model = TypeVar("_Model", bound=BaseModel)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class OperatorSpeed(_Part):
    """One operator of ``speed.json``."""

    operator: str
    value: float
    """How many times as fast as on the other side: the median of the rounds."""
    low: float
    high: float


class TimedWheel(_Part):
    """A wheel whose kernels were timed."""

    onednn: str
    """Release of the oneDNN in it; empty if it does not say."""


class KernelSpeeds(_Part):
    """What the page shows of a ``speed.json``."""

    project: str
    wheel: TimedWheel
    threads: int
    rounds: int
    machine: str
    measured: str
    operators: tuple[OperatorSpeed, ...]

    @property
    def mean(self) -> float:
        """Geometric mean of all operators."""
        return geometric_mean([one.value for one in self.operators])

    @property
    def mean_without_handlers(self) -> float:
        """Geometric mean of the operators that a request calls."""
        return geometric_mean([one.value for one in self.operators if not one.operator.startswith(HANDLERS)])

    def below(self, least: float) -> list[OperatorSpeed]:
        """Return the operators whose median is below a ratio, the slowest first."""
        return sorted((one for one in self.operators if one.value < least), key=lambda one: one.value)


@dataclass(frozen=True)
class Everything:
    """All results of one page.

    Attributes:
        builds: Of the benchmark of builds.
        kernels: Comparisons of kernels: other side → library → result.
        served: Comparisons of servers, by the other side.
        machines: Of the simulation of machines with more CPUs.
        bisections: Of the benchmark of bisections; None if it was not run.
    """

    builds: builds.Results
    kernels: Mapping[str, Mapping[str, KernelSpeeds]]
    served: Mapping[str, ServeBench]
    machines: simulation.Machines
    bisections: bisections.Results | None

    def versions(self) -> list[str]:
        """Return the versions of the project that measured anything."""
        return sorted(set(self._versions()) - {""})

    def _versions(self) -> Iterator[str]:
        yield from (run.project for runs in self.builds.runs.values() for run in runs)
        yield from (found.project for libraries in self.kernels.values() for found in libraries.values())
        yield from (found.project for found in self.served.values())
        yield self.machines.project
        if self.bisections is not None:
            yield from (run.project for run in (*self.bisections.first, *self.bisections.warm))


def read_everything(folder: Path) -> Everything:
    """Read the results of a folder.

    Raises:
        UsageError: One is not there, or of another version of the benchmarks.
    """
    whole = folder / BISECTIONS
    return Everything(
        builds=builds.read_results(folder / BUILDS),
        kernels={
            other.name: {path.stem: _read(KernelSpeeds, path) for path in sorted(other.glob("*.json"))}
            for other in sorted((folder / KERNELS).iterdir())
        },
        served={path.stem: _read(ServeBench, path) for path in sorted((folder / SERVED).glob("*.json"))},
        machines=_read(simulation.Machines, folder / MACHINES),
        bisections=_read(bisections.Results, whole) if whole.is_file() else None,
    )


def _read(model: type[_Model], path: Path) -> _Model:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"{path.name} cannot be shown: {error}", where=path, next_step="measure it anew, docs/benchmark.md says how"
        ) from error
