"""Which jobs of a farm run much longer than expected, and which machine with nothing to do may try one as well."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cpuwheels.farm.job import Job

TOPIC = "cpuwheels-began"
"""What workers tell of jobs that begin, in the events of dask.distributed."""


@dataclass(frozen=True)
class Patience:
    """How long a job is waited for before another machine tries it as well.

    Attributes:
        times: So many times its expected seconds.
        least: But at least so many seconds, since what is expected may be from a faster machine.
        every: Seconds between two looks.
    """

    times: float = 3.0
    least: float = 300.0
    every: float = 5.0

    def seconds(self, job: Job) -> float:
        """Return how many seconds a job is waited for."""
        return max(self.least, self.times * job.seconds)


@dataclass(frozen=True)
class _Run:
    worker: str
    since: float


class SlowJobs:
    """Where jobs run and since when, by the clock of the machine that asks.

    Args:
        patience: How long they are waited for.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._guard = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._tried: set[str] = set()

    def began(self, key: str, worker: str, now: float) -> None:
        """Note that a job began; it may do so more than once.

        Args:
            key: Of the job.
            worker: Name of the machine that does it.
            now: Seconds.
        """
        with self._guard:
            self._runs[key] = _Run(worker, now)

    def overdue(self, waited_for: Mapping[str, Job], now: float) -> list[Job]:
        """Return the jobs that have run for too long and were not tried a second time.

        Args:
            waited_for: Jobs without a result, by key.
            now: Seconds.
        """
        with self._guard:
            running = [(job, self._runs[key]) for key, job in waited_for.items() if key in self._runs]
            late = [job for job, run in running if now - run.since > self._patience.seconds(job)]
            return [job for job in late if job.key not in self._tried]

    def second_attempts(
        self, waited_for: Mapping[str, Job], idle: Collection[str], able: Mapping[str, Collection[str]], now: float
    ) -> list[tuple[Job, str]]:
        """Return jobs and the idle machine that each is given to as well; each job once, the longest ways first.

        Args:
            waited_for: Jobs without a result, by key.
            idle: Names of machines that have nothing to do.
            able: Names of machines that may do a job, by its key.
            now: Seconds.
        """
        free, found = sorted(idle), []
        slow = self.overdue(waited_for, now)
        with self._guard:
            for job in sorted(slow, key=lambda job: -job.priority):
                worker = self._runs[job.key].worker
                place = next((name for name in free if name != worker and name in able[job.key]), None)
                if place is not None:
                    free.remove(place)
                    self._tried.add(job.key)
                    found.append((job, place))
        return found
