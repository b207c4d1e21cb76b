"""Second opinions: a wheel counts if another machine, which used nothing of the first one's, makes the same bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.core.errors import CpuwheelsError, NotReproducedError
from cpuwheels.farm.job import second_opinion

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.farm.done import Done
    from cpuwheels.farm.executor import Executor
    from cpuwheels.farm.job import Job

MOST = 3
"""Machines that are asked about one wheel: two that agree are a majority of them."""


class Opinions:
    """Asks other machines about wheels.

    Args:
        executor: Of the farm.
        announce: Told of a machine whose wheel is not that of the others.
        leave_out: Called with the job and such a machine's result; returns the name of the one that is left out.
    """

    def __init__(
        self, executor: Executor, announce: Callable[[str], None], leave_out: Callable[[Job, Done], str]
    ) -> None:
        self._executor, self._announce, self._leave_out = executor, announce, leave_out

    def settled(self, job: Job, done: Done) -> Done:
        """Return the result that two machines agree on, asking a third one if the first two do not.

        Args:
            job: The job that made a wheel.
            done: What came of it.

        Raises:
            NotReproducedError: No two of them agree, or no other machine could make the wheel.
        """
        opinions: list[Done] = [done]
        faults: list[Done] = []
        again = job
        while len(opinions) + len(faults) < MOST:
            again = second_opinion(again)
            asked = [one.by for one in opinions] + [one.by for one in faults]
            try:
                other = self._executor.submit(again, avoid=asked).result()
            except CpuwheelsError as error:
                raise self._unsure(job, opinions, error.what) from error
            if other.code:
                faults.append(other)
                continue
            opinions.append(other)
            digest, count = Counter(one.sha256 for one in opinions).most_common(1)[0]
            if count > 1:
                return self._agreed(job, opinions, digest)
        raise self._unsure(job, opinions, "\n".join(one.output for one in faults))

    def _agreed(self, job: Job, opinions: list[Done], digest: str) -> Done:
        for one in opinions:
            if one.sha256 != digest:
                blamed = self._leave_out(job, one)
                of = f", of kernels of {blamed}" if blamed != one.by else ""
                self._announce(
                    f"{one.by} made other bytes of {job} than two others did{of}; its wheel is not used, and {blamed} "
                    "gets no more jobs"
                )
        return replace(next(one for one in opinions if one.sha256 == digest), key=job.key)

    @staticmethod
    def _unsure(job: Job, opinions: list[Done], why: str) -> NotReproducedError:
        found = "\n".join(f"{one.by}: {one.wheel} {one.sha256}" for one in opinions)
        return NotReproducedError(
            f"no two machines of the farm agree on {job}",
            where=", ".join(one.by for one in opinions),
            output="\n".join(part for part in (found, why) if part),
            next_step="compare both wheels; with two machines nobody can tell which of them is wrong",
        )
