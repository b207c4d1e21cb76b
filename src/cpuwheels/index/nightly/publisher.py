"""Wheels of a nightly job where nothing is built: taken over as data, checked, signed and published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpuwheels.core.errors import CpuwheelsError, NightlyError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.index.nightly.ready import find_ready, own_copy, ready_folder
from cpuwheels.index.nightly.worker import WheelMaker
from cpuwheels.index.reports import NAMES
from cpuwheels.pipeline.pylock import FILE as LOCK
from cpuwheels.pipeline.slsa import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.index.nightly.plan import Job
    from cpuwheels.index.nightly.queue import Made


class WheelPublisher(WheelMaker):
    """Publishes wheels that a build left, as data: none of their code runs."""

    def __init__(self, *arguments: Any, wheels: Path, **options: Any) -> None:  # noqa: ANN401  (those of the base)
        super().__init__(*arguments, **options)
        self._wheels = wheels

    def make(self, job: Job) -> Made:
        """Publish a wheel, and take it out of the folder.

        Raises:
            CpuwheelsError: It was not made, is not what was asked for, or cannot be published.
        """
        wheel = find_ready(self._wheels, job)
        if wheel is None:
            raise NightlyError("it was not built", where=ready_folder(self._wheels, job))
        # Of the provenance the statement alone: what a build has signed, nobody trusts.
        with own_copy(wheel, (*NAMES, LOCK, f"{wheel.name}{SUFFIX}")) as copy:
            made = self._publish(job, copy)
        with storage_errors(wheel.parent):
            remove_tree(wheel.parent)
        return made

    def keep(self, job: Job, error: CpuwheelsError) -> str:
        """Record in the index why the wheel is missing, and return where it is."""
        self._say_missing(job, error)
        return str(ready_folder(self._wheels, job))
