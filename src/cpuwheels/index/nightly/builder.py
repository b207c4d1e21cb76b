"""Wheels of a nightly job where nothing is published: built, tested, and left to the publisher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.index.nightly.queue import WRONG, Made
from cpuwheels.index.nightly.ready import READY, Failure, leave_failure, leave_wheel, ready_folder
from cpuwheels.index.nightly.worker import WheelMaker

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.errors import CpuwheelsError
    from cpuwheels.index.nightly.plan import Job


class WheelBuilder(WheelMaker):
    """Makes wheels and leaves them to the publisher: no credentials are needed, and nothing of the index is changed."""

    def make(self, job: Job) -> Made:
        """Build and test a wheel, and leave it to the publisher.

        Raises:
            CpuwheelsError: As for `WheelMaker.make`.
        """
        wheel = self._tested(job)
        ready = self._places.dist / READY
        leave_wheel(ready, job, wheel)
        self._clear(job)
        if job.target == self._turn and self._waiting is None:
            self._waiting = (job, ready_folder(ready, job) / wheel.name)
        return Made(wheel.name, "built")

    def _tell(self, job: Job, wheel: Path) -> None:
        """Leave it to the publisher: the report is next to the wheel."""

    def keep(self, job: Job, error: CpuwheelsError) -> str:
        """Put the files of a wheel that could not be made into a folder, and leave the reason to the publisher."""
        kept = self._keep(job, error)
        failure = Failure(state="wrong" if isinstance(error, WRONG) else "failed", reason=error.what)
        leave_failure(self._places.dist / READY, job, failure)
        return kept
