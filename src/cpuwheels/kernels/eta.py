"""How far a build is and how long it will still take, from what its files are expected to cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

from cpuwheels.kernels.memory.costs import job_class
from cpuwheels.kernels.schedule import Job, makespan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.kernels.memory.costs import Cost

_RECENT = 1 / 12
"""Part of the whole work after which a measured speed has the weight 1/e."""

_PRIOR = 1 / 40
"""The weight of the expected speed, as a part of the whole work."""

_CERTAIN = 0.2
"""The weight of the guess about a target's cached files, in files: usually all or none of them are."""

_NEARLY = 0.95
"""The largest part of a running job that counts as done."""

_SOON = 3.0
"""A job that runs longer than this many times the usual length of a cached one is taken to be compiled."""


@dataclass(frozen=True)
class Estimate:
    """What is known of a build at one moment.

    Attributes:
        part: Done part of the expected work, from 0 to 1; never less than it was before.
        seconds: Time to the end.
    """

    part: float
    seconds: float


@dataclass(frozen=True)
class _Done:
    """A finished job: expected CPU seconds, how long it took, whether it was cached, work done until it ended."""

    cost: float
    wall: float
    cached: bool
    work: float


class Remaining:
    """The work that is left of a build.

    A job of some expected CPU seconds takes that divided by the speed, which is 1 on an idle machine like the one
    that was measured. It is estimated from the finished jobs, mostly from the last ones.

    Args:
        costs: What each output is expected to take.
        cpus: Jobs at once.
        room: Bytes for all jobs together.
    """

    def __init__(self, costs: Mapping[str, Cost], cpus: int, room: int) -> None:
        self._costs = dict(costs)
        self._cpus = cpus
        self._room = room
        self._whole = sum(cost.seconds for cost in costs.values())
        self._headers = {job_class(output): output for output in costs if _is_header(output)}
        self._done: dict[str, _Done] = {}
        self._work = 0.0
        self._part = 0.0

    def finish(self, output: str, wall: float, *, cached: bool = False) -> None:
        """Note that an output is there; to be called in the order in which they were finished.

        Args:
            output: The file; one without a known cost changes nothing.
            wall: Seconds that it took.
            cached: Whether it came out of the compiler cache.
        """
        cost = self._costs.get(output)
        if cost is None or output in self._done:
            return
        self._work += 0 if cached else cost.seconds
        self._done[output] = _Done(cost.seconds, wall, cached, self._work)

    def estimate(self, running: Mapping[str, float]) -> Estimate | None:
        """Return how far the build is, or None if nothing is known of its files.

        Args:
            running: Outputs that are being made, and for how many seconds.
        """
        if self._whole <= 0:
            return None
        running = {output: age for output, age in running.items() if output in self._costs and output not in self._done}
        speed = self._speed(running)
        done = sum(job.cost for job in self._done.values())
        begun = sum(min(_NEARLY * self._costs[output].seconds, age * speed) for output, age in running.items())
        self._part = max(self._part, min(1.0, (done + begun) / self._whole))
        return Estimate(self._part, self._seconds(running, speed))

    def _speed(self, running: Mapping[str, float]) -> float:
        """Return expected CPU seconds per second of a job.

        A running job that takes longer than it should at the speed seen so far counts as well.
        """
        weight = exp(-self._work / self._whole / _RECENT)
        expected = real = weight * _PRIOR * self._whole
        for output, job in self._done.items():
            if not job.cached and not _is_link(output):
                weight = exp((job.work - self._work) / self._whole / _RECENT)
                expected += weight * job.cost
                real += weight * job.wall
        begun = [(self._costs[output].seconds, age) for output, age in running.items()]
        overdue = [(cost, age) for cost, age in begun if cost < age * expected / real]
        return (expected + sum(cost for cost, _ in overdue)) / (real + sum(age for _, age in overdue))

    def _seconds(self, running: Mapping[str, float], speed: float) -> float:
        """Return the time to the end, the longest jobs first."""
        chances = self._chances()
        cached = {header: self._usual(header=header) for header in (True, False)}
        begun: list[Job] = []
        waiting: list[Job] = []
        links: list[Job] = []
        for output, cost in self._costs.items():
            if output in self._done:
                continue
            compiled, usual = cost.seconds / speed, cached[_is_header(output)]
            chance = 0.0 if _is_link(output) else chances.get(job_class(output), chances[""])
            if output in running:
                compiled = max(compiled * (1 - _NEARLY), compiled - running[output])
                chance = chance if running[output] < _SOON * usual else 0.0
            seconds = chance * min(usual, compiled) + (1 - chance) * compiled
            kind = begun if output in running else links if _is_link(output) else waiting
            kind.append(Job(output, seconds, cost.bytes, self._awaited(output) if kind is waiting else None))
        files = makespan(begun, waiting, self._cpus, self._room)
        return files + makespan([], links, self._cpus, self._room)

    def _awaited(self, output: str) -> str | None:
        """Return the header that a file waits for."""
        header = self._headers.get(job_class(output))
        return None if header in self._done or header == output else header

    def _chances(self) -> dict[str, float]:
        """Return how likely the next file of each target is cached; under no name, of targets not seen yet."""
        files = [(job_class(output), job.cached) for output, job in self._done.items() if not _is_link(output)]
        seen, hits = Counter(name for name, _ in files), Counter(name for name, cached in files if cached)
        of_any = hits.total() / (len(files) + _CERTAIN)
        return {"": of_any} | {name: (hits[name] + _CERTAIN * of_any) / (seen[name] + _CERTAIN) for name in seen}

    def _usual(self, *, header: bool) -> float:
        """Return how many seconds a cached header, or another cached file, takes."""
        found = [job.wall for output, job in self._done.items() if job.cached and _is_header(output) == header]
        return sum(found) / max(1, len(found))


def _is_header(output: str) -> bool:
    return output.endswith(".gch")


def _is_link(output: str) -> bool:
    return job_class(output) == "link"
