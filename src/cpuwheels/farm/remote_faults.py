"""What dask.distributed says of a job that was not done, as an error of this program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from cpuwheels.core.errors import CpuwheelsError, FarmError, StoppedError
from cpuwheels.farm.executor import FarmGoneError

if TYPE_CHECKING:
    from cpuwheels.farm.job import Job


def reason_of(job: Job, error: BaseException, address: str, key: str, *, over: bool) -> BaseException:
    """Return why a job was not done.

    Args:
        job: The job.
        error: What its future raised.
        address: Of the scheduler.
        key: By which dask knew the job.
        over: Whether the jobs were given up by this program.
    """
    if isinstance(error, CpuwheelsError):
        return error
    if isinstance(error, KilledWorker):
        what = str(job) if str(error.task) == key else f"a job before {job}"
        return FarmError(
            f"{what} ended every worker that began it",
            where=address,
            next_step="see on those machines what ended it; often memory ran out: give workers a smaller --memory",
        )
    if isinstance(error, FutureCancelledError | OSError):
        return StoppedError() if over else scheduler_gone(address)
    return FarmError(
        f"{job} was not done: {type(error).__name__}: {error}",
        where=address,
        next_step="see what the scheduler and the workers have printed, and run the command again",
    )


def scheduler_gone(address: str) -> FarmGoneError:
    """Return that a scheduler does not answer any more."""
    return FarmGoneError(
        "the scheduler cannot be reached any more, or gave the job up",
        where=address,
        next_step="start the farm again and run the command again: what was done is not done again",
    )
