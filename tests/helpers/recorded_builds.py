"""Real builds as memgate recorded them, and what they would have been on another machine."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.kernels.eta import Remaining
from cpuwheels.kernels.memory.costs import Cost, expected_costs, job_class, read_costs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cpuwheels.kernels.eta import Estimate

ROOT = Path(__file__).resolve().parents[2]
_STEP = 0.25
"""Seconds for which a machine's speed is taken to stay the same."""


@dataclass(frozen=True)
class Made:
    """One job: its output, when it started and ended, its CPU time (all in seconds), and whether it was cached."""

    output: str
    start: float
    end: float
    cpu: float
    cached: bool


@dataclass(frozen=True)
class Forecast:
    """What was estimated at one moment of a build that took `total` seconds."""

    now: float
    estimate: Estimate
    total: float

    @property
    def error(self) -> float:
        """Predicted less real duration, as a part of the real one."""
        return (self.now + self.estimate.seconds - self.total) / self.total


def recorded(name: str) -> list[Made]:
    """Return a build of ``tests/data/recorded-builds``."""
    lines = (ROOT / "tests" / "data" / "recorded-builds" / f"{name}.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [Made(output, float(a), float(b), float(cpu), cached == "1") for output, a, b, cpu, cached in rows]


def costs_of(build: Sequence[Made]) -> dict[str, Cost]:
    """Return what was expected of a build's jobs: the project's table when it was recorded, not what they took."""
    known = read_costs(ROOT / "tests" / "data" / "recorded-builds" / "costs.tsv")
    return expected_costs([made.output for made in build], known, Cost(15, 1 << 30))


def continued(build: Sequence[Made], since: float) -> list[Made]:
    """Return the rest of a build as if it had been stopped before: the jobs that started later."""
    rest = [made for made in build if made.start >= since]
    began = min(made.start for made in rest)
    return [Made(made.output, made.start - began, made.end - began, made.cpu, made.cached) for made in rest]


def replayed(build: Sequence[Made], cpus: int, speed: Callable[[int, float], float]) -> list[Made]:
    """Return a build as it would have been on a machine of some number of CPUs, each with a speed of its own.

    The CPU time of each job is that of the record, the order that of memgate with memory enough: the longest first,
    files after the header of their target, links after all files.

    Args:
        build: The record.
        cpus: Jobs at once.
        speed: Gives a CPU's speed at a moment: 1 if it does nothing else.
    """
    expected = costs_of(build)
    waiting = sorted(build, key=lambda made: -expected[made.output].seconds)
    headers = {job_class(made.output): made.output for made in build if made.output.endswith(".gch")}
    ends: list[tuple[float, int, str]] = []
    free, ended, done = list(range(cpus)), set[str](), list[Made]()
    now = 0.0
    while waiting or ends:
        files_left = any(job_class(made.output) != "link" for made in waiting) or ends
        for made in list(waiting):
            kind = job_class(made.output)
            blocked = files_left if kind == "link" else headers.get(kind) not in {None, made.output, *ended}
            if free and not blocked:
                lane = free.pop(0)
                end = _end(now, made.cpu, lane, speed)
                done.append(Made(made.output, now, end, made.cpu, made.cached))
                heapq.heappush(ends, (end, lane, made.output))
                waiting.remove(made)
        now, lane, output = heapq.heappop(ends)
        free.append(lane)
        ended.add(output)
    return done


def _end(start: float, cpu: float, lane: int, speed: Callable[[int, float], float]) -> float:
    now = start
    while (rate := speed(lane, now)) * _STEP < cpu:
        cpu -= rate * _STEP
        now += _STEP
    return now + cpu / rate


def forecasts(build: Sequence[Made], cpus: int = 2, moments: int = 600) -> list[Forecast]:
    """Return what is estimated at evenly spaced moments of a build, of which only the past is told."""
    remaining = Remaining(costs_of(build), cpus, room=1 << 40)
    total = max(made.end for made in build)
    coming = sorted(build, key=lambda made: made.end)
    found = []
    for moment in range(moments):
        now = moment * total / moments
        while coming[0].end <= now:
            made = coming.pop(0)
            remaining.finish(made.output, made.end - made.start, cached=made.cached)
        estimate = remaining.estimate({made.output: now - made.start for made in coming if made.start <= now})
        assert estimate is not None
        found.append(Forecast(now, estimate, total))
    return found
