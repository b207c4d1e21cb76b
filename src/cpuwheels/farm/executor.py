"""Who runs jobs: what this machine and a farm have in common, and the run of a whole graph by either."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Protocol

from cpuwheels.core.errors import CpuwheelsError, FarmError, StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from cpuwheels.farm.done import Done
    from cpuwheels.farm.job import Job, Needs

ATTEMPTS = 3
"""How often a job is attempted that fails for a passing reason."""

_SETTLERS = 16
"""Results that are taken in at once; each may wait for a second opinion."""


class FarmGoneError(FarmError):
    """The scheduler is gone: nothing is known about a job but that it may be done another time."""


class Executor(Protocol):
    """Runs jobs, those of higher priority first, each after those whose results it uses."""

    def can_do(self, needs: Needs) -> bool:
        """Return whether a machine could do a job with these needs."""

    def require(self, job: Job) -> None:
        """Check that a machine could do a job.

        Raises:
            FarmError: None can.
        """

    def tell_begun(self, tell: Callable[[str, str], None]) -> None:
        """Have somebody told of each job that begins, and begins again: its key, and who does it.

        Args:
            tell: Called in any thread.
        """

    def expect(self, jobs: Iterable[Job]) -> None:
        """Name jobs that will be submitted: what they use is kept until they are done."""

    def know(self, done: Done, dist: Path) -> None:
        """Take the result of a job that was done before, for those that use it.

        Args:
            done: The result.
            dist: The output folder that has its files.
        """

    def submit(self, job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        """Have a job done, and return its result to come; the same key is done once.

        Args:
            job: The job; the results of those before it are known, or they were submitted.
            avoid: Names of machines that must not do it.

        Raises:
            FarmError: No machine can do it.
        """

    def cancel(self) -> None:
        """Do nothing more: what waits is not begun, what runs is ended."""


def run_jobs(
    jobs: Sequence[Job],
    executor: Executor,
    settle: Callable[[Job, Done], Done],
    tell: Callable[[int, int], None] = lambda _done, _all: None,
    every: float = 30.0,
    ended: Callable[[Job, Done | CpuwheelsError], None] = lambda _job, _result: None,
) -> dict[str, Done | CpuwheelsError]:
    """Run jobs and return what came of each, by its key. All are ended if the run is interrupted.

    Args:
        jobs: Each after those whose results it uses.
        executor: Runs them.
        settle: Called with each result, in a thread of its own; returns what counts.
        tell: Called with how many are done and how many there are, after each and every `every` seconds.
        every: Seconds.
        ended: Called with each job and what came of it.

    Raises:
        FarmError: No machine can do one of them.
    """
    results: dict[str, Done | CpuwheelsError] = {}
    pool = ThreadPoolExecutor(_SETTLERS, thread_name_prefix="settle")
    executor.expect(jobs)
    try:
        under_way = {_settled(pool, executor.submit(job), job, settle): job for job in jobs}
        while under_way:
            finished, _ = wait(under_way, timeout=every, return_when=FIRST_COMPLETED)
            for future in finished:
                job = under_way.pop(future)
                results[job.key] = future.result()
                ended(job, results[job.key])
            tell(len(results), len(jobs))
    except BaseException:
        executor.cancel()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return results


def _settled(
    pool: ThreadPoolExecutor, ended: Future[Done], job: Job, settle: Callable[[Job, Done], Done]
) -> Future[Done | CpuwheelsError]:
    """Return what comes of a result once it is settled."""
    outer: Future[Done | CpuwheelsError] = Future()

    def finish() -> None:
        try:
            outer.set_result(settle(job, ended.result()))
        except CancelledError:
            outer.set_exception(StoppedError())
        except StoppedError as error:
            outer.set_exception(error)
        except CpuwheelsError as error:
            outer.set_result(error)
        except BaseException as error:  # noqa: BLE001  (whoever waits for it gets it)
            outer.set_exception(error)

    def begin(_ended: Future[Done]) -> None:
        try:
            pool.submit(finish)
        except RuntimeError:  # the run was interrupted
            outer.set_exception(StoppedError())

    ended.add_done_callback(begin)
    return outer
