"""The lower bound of the time that jobs take, whatever their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from farmbench.events import able_machines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.farm.job import Job
    from cpuwheels.farm.machine import Machine

WORK, LATER, CHAIN = "work", "later work", "chain"
"""What a bound is from: all work divided by the machines that can do it; what cannot begin before some moment, likewise
and after that moment; and the longest chain of jobs."""


@dataclass(frozen=True)
class Bound:
    """A lower bound.

    Attributes:
        seconds: No order of the jobs takes less.
        of: `WORK`, `LATER` or `CHAIN`.
    """

    seconds: float
    of: str


def lower_bound(jobs: Sequence[Job], machines: Sequence[Machine], least: Mapping[str, float]) -> Bound:
    """Return the largest of the work per machine, from the beginning and from any later moment, and the longest chain.

    It is the head-based bound of scheduling with release dates, as `simulation.lower_bound` has it for compilations.
    Where machines differ, the work that only some of them can do is divided by their number.

    Args:
        jobs: Each after those whose results it uses.
        machines: Each does one job at a time.
        least: Seconds that each job takes at least, by its key.

    Raises:
        FarmError: No machine can do one of them.
    """
    able = able_machines(jobs, machines)
    ends: dict[str, float] = {}
    heads: dict[str, float] = {}
    for job in jobs:
        heads[job.key] = max((ends.get(key, 0.0) for key in job.after), default=0.0)
        ends[job.key] = heads[job.key] + least[job.key]
    found = [Bound(max(ends.values(), default=0.0), CHAIN)]
    for group in {*able.values(), frozenset(range(len(machines)))}:
        work = 0.0
        its = sorted((job for job in jobs if able[job.key] <= group), key=lambda job: -heads[job.key])
        for place, job in enumerate(its):  # what begins latest first
            work += least[job.key]
            head = heads[job.key]
            if place + 1 == len(its) or heads[its[place + 1].key] < head:
                found.append(Bound(head + work / len(group), LATER if head else WORK))
    return max(found, key=lambda bound: bound.seconds)
