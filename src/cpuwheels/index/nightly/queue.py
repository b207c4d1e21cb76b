"""The jobs one after the other: a failed job does not stop the others."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from cpuwheels.core.errors import (
    CpuwheelsError,
    DiskFullError,
    DownloadError,
    ParityError,
    PostponedError,
    ServeError,
    SourceError,
    StoreError,
)
from cpuwheels.core.errors import UnsuitableSourceError as Unsuitable
from cpuwheels.index.nightly.summary import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cpuwheels.core.budget import Budget
    from cpuwheels.core.console import Reporter
    from cpuwheels.index.nightly.plan import Job

PASSING = (DownloadError, SourceError)
"""Errors that may be gone a moment later: the network."""

WRONG = (ParityError, ServeError)
"""Errors that mean that a wheel was made, and that a test of it failed."""

MACHINE = (DiskFullError, StoreError)
"""Errors that would stop the next job too."""

PAUSE_SECONDS = 30.0
"""Seconds before the second attempt; as many times as long before each further one."""


@dataclass(frozen=True)
class Made:
    """A wheel that was made.

    Attributes:
        wheel: Its file name.
        state: Whether it is published, too.
    """

    wheel: str
    state: Literal["published", "built"] = "published"


class Maker(Protocol):
    """Builds, tests and publishes one wheel."""

    def make(self, job: Job) -> Made:
        """Do it.

        Raises:
            CpuwheelsError: Any stage's own error; one of `WRONG` if a test of the wheel failed.
        """

    def keep(self, job: Job, error: CpuwheelsError) -> str:
        """Put the files of a wheel that was not published into a folder, and return it."""


def run_jobs(
    jobs: Iterable[Job],
    maker: Maker,
    budget: Budget,
    reporter: Reporter,
    *,
    attempts: int,
    pause: Callable[[float], None] = time.sleep,
) -> list[Outcome]:
    """Do the jobs in their order, and return what became of each.

    Args:
        jobs: What has to be done.
        maker: Does one.
        budget: What may be used.
        reporter: Told of each outcome.
        attempts: How often a job is attempted that fails for a passing reason.
        pause: Waits between attempts.
    """
    outcomes: list[Outcome] = []
    stopped = ""
    for job in jobs:
        stopped = stopped or budget.spent()
        if stopped:
            outcome = Outcome(source=job.source, target=job.target, state="postponed", reason=stopped)
        else:
            outcome, stopped = _attempted(job, maker, budget, attempts, pause)
        outcomes.append(outcome)
        said = f": {outcome.reason}" if outcome.reason else ""
        reporter.info(f"{job.source[:9]} {job.target}: {outcome.state}{said}")
    return outcomes


def _attempted(
    job: Job, maker: Maker, budget: Budget, attempts: int, pause: Callable[[float], None]
) -> tuple[Outcome, str]:
    """Return what became of a job, and why no other may be begun after it."""
    began = budget.now()
    for attempt in range(1, attempts + 1):
        try:
            made = maker.make(job)
        except PostponedError as error:  # what was made so far stays, and the next run goes on with it
            return Outcome(source=job.source, target=job.target, state="postponed", reason=error.what), error.what
        except CpuwheelsError as error:
            passing = isinstance(error, PASSING) and not isinstance(error, Unsuitable)
            if passing and attempt < attempts and not budget.spent():
                pause(PAUSE_SECONDS * attempt)
                continue
            outcome = Outcome(
                source=job.source,
                target=job.target,
                state="wrong" if isinstance(error, WRONG) else "failed",
                reason=error.what,
                seconds=round(budget.now() - began, 2),
                attempts=attempt,
                kept="" if isinstance(error, MACHINE) else maker.keep(job, error),
            )
            return outcome, error.what if isinstance(error, MACHINE) else ""
        return Outcome(
            source=job.source,
            target=job.target,
            state=made.state,
            seconds=round(budget.now() - began, 2),
            attempts=attempt,
            wheel=made.wheel,
        ), ""
    raise AssertionError(attempts)  # at least one attempt returns
