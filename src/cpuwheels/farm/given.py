"""A job that a farm was given: who may do it, its attempts, and whether anybody is left who can."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.core.errors import FarmError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from distributed import Future as DaskFuture

    from cpuwheels.farm.done import Done
    from cpuwheels.farm.job import Job

LOST_SECONDS = 600.0
"""How long a job waits for a machine that can do it once all of these are gone: as long as workers try to come back."""


@dataclass(eq=False)
class Given:
    """A job that a farm was given.

    Attributes:
        job: The job.
        able: Names of the workers that could do it when it was given.
        avoid: Names of workers that must not do it.
        result: What comes of it.
        attempts: Futures of dask of which the first result counts; any other one that ends is of no interest.
        names: Workers that the last attempt is bound to; None if any may do it.
        addresses: Of these when it was given to them. A worker that is started again has another one.
        tries: How often it was given to workers again.
        lost: Since when, in seconds of the asker's clock, no worker is there that can do it.
    """

    job: Job
    able: frozenset[str]
    avoid: frozenset[str] = frozenset()
    result: Future[Done] = field(default_factory=Future)
    attempts: list[DaskFuture[Done]] = field(default_factory=list)
    names: frozenset[str] | None = None
    addresses: frozenset[str] = frozenset()
    tries: int = 0
    lost: float | None = None

    def is_stranded(self, workers: Mapping[str, str]) -> bool:
        """Return whether it is bound to workers that have all been started again, at other addresses.

        Args:
            workers: Names by address.
        """
        if self.names is None or not self.names & set(workers.values()):
            return False
        return not self.addresses & workers.keys()

    def lost_for(self, able: Collection[str], now: float) -> float:
        """Return for how many seconds no worker has been there that can do it.

        Args:
            able: Names of the workers that are there and can.
            now: Seconds.
        """
        self.lost = None if able else now if self.lost is None else self.lost
        return 0.0 if self.lost is None else now - self.lost


def nobody_left(job: Job) -> FarmError:
    """Return that no worker is there any more that can do a job.

    Args:
        job: The job.
    """
    return FarmError(
        f"no worker of the farm can do {job} any more",
        where=job.needs.can.replace(":", " "),
        next_step="start a worker that can, and run the command again: what was done is not done again",
    )
