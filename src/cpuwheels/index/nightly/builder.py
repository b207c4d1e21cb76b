"""Wheels of a nightly job where nothing is published: built, tested, and left to the publisher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpuwheels.core.errors import FarmError
from cpuwheels.index.nightly.queue import WRONG, Made
from cpuwheels.index.nightly.ready import READY, Failure, leave_failure, leave_wheel, ready_folder
from cpuwheels.index.nightly.worker import WheelMaker
from cpuwheels.pipeline.report.write import refresh_if_built

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import CpuwheelsError
    from cpuwheels.index.nightly.on_farm import FarmNight
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


class FarmBuilder(WheelBuilder):
    """Leaves wheels to the publisher that a farm has made and tested.

    Args:
        arguments, options: As for `WheelMaker`.
        night: The farm's jobs.
    """

    def __init__(self, *arguments: Any, night: FarmNight, **options: Any) -> None:  # noqa: ANN401  (those of the base)
        super().__init__(*arguments, **options)
        self._night = night

    def _made(self, job: Job, paths: Paths, target: Target, reporter: Reporter) -> Path:
        """Take a wheel home, and refuse it if a test of it failed or was not done.

        Raises:
            CpuwheelsError: Of the class that its job ended with.
        """
        del target, reporter
        wheel = self._night.take(job, paths.dist)
        refresh_if_built(wheel)  # each test has written its own
        for error in self._night.failures(job):
            raise error
        return wheel

    def keep(self, job: Job, error: CpuwheelsError) -> str:
        """As for other builds; but what is wrong with a farm is no reason that the index gives for a missing wheel."""
        return self._keep(job, error) if isinstance(error, FarmError) else super().keep(job, error)
