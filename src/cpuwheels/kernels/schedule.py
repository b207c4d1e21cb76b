"""When the last of some jobs ends if the longest ones that can start do so first."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_length = attrgetter("seconds")


@dataclass(frozen=True)
class Job:
    """One compilation or link.

    Attributes:
        output: Names it.
        seconds: How long it takes, or still takes if it runs.
        bytes: Memory that it needs meanwhile.
        after: Output of the job that it waits for, or None.
    """

    output: str
    seconds: float
    bytes: int = 0
    after: str | None = None


def makespan(running: Sequence[Job], waiting: Sequence[Job], cpus: int, room: int) -> float:
    """Return the seconds until the last job ends: list scheduling, the longest job first.

    Args:
        running: Jobs that have started.
        waiting: Jobs that have not; those that wait for another one wait for one of all these.
        cpus: Jobs at once.
        room: Bytes for all jobs at once; one that needs more runs alone.
    """
    now, free = 0.0, room
    ends: list[tuple[float, str, int]] = []  # of the jobs that run
    held: dict[str, list[Job]] = {}
    for job in waiting:
        if job.after is not None:
            held.setdefault(job.after, []).append(job)
    ready = sorted((job for job in waiting if job.after is None), key=_length, reverse=True)
    starting = list(running)
    while True:
        for job in starting:
            free -= job.bytes
            heapq.heappush(ends, (now + job.seconds, job.output, job.bytes))
        if len(ends) < cpus and (index := _first_that_fits(ready, free, alone=not ends)) is not None:
            starting = [ready.pop(index)]
            continue
        if not ends:
            return now
        now, output, size = heapq.heappop(ends)
        free += size
        starting = []
        if output in held:
            ready = sorted([*ready, *held.pop(output)], key=_length, reverse=True)


def _first_that_fits(jobs: Sequence[Job], free: int, *, alone: bool) -> int | None:
    found = next((index for index, job in enumerate(jobs) if job.bytes <= free), None)
    return 0 if found is None and alone and jobs else found
