"""The wheels of commits, made by a farm; the commands that judge them run on this machine, with the user's files."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cpuwheels.farm.graph import Wanted, wheel_after_kernels
from cpuwheels.farm.intake import take_in
from cpuwheels.farm.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.done import Done
    from cpuwheels.farm.executor import Executor
    from cpuwheels.farm.graph import Estimate, Order
    from cpuwheels.farm.job import Job

PRIORITY = 10
"""Of a bisection's jobs: somebody waits for it, as for no batch that is not told otherwise."""


class FarmWheels:
    """Has wheels made by a farm, several at once.

    Args:
        executor: Of the farm.
        target: Target id.
        order: How they are built.
        estimate: What jobs take.
        classes: By commit the class of its kernels; those of one class are compiled once.
    """

    def __init__(
        self, executor: Executor, target: str, order: Order, estimate: Estimate, classes: Mapping[str, str]
    ) -> None:
        self._executor, self._target = executor, target
        self._order, self._estimate, self._classes = order, estimate, classes
        self._futures: dict[str, tuple[Job, Future[Done]]] = {}
        self._guard = threading.Lock()

    def begin(self, commit: str) -> Future[Done]:
        """Have a commit's wheel made, unless that was begun; nothing is waited for.

        Args:
            commit: Full hash.

        Raises:
            FarmError: No worker can do it, or the scheduler is gone.
        """
        with self._guard:
            if commit not in self._futures:
                kernels, wheel = self._jobs(commit)
                self._executor.expect((kernels, wheel))
                self._executor.submit(kernels)
                self._futures[commit] = (wheel, self._executor.submit(wheel))
            return self._futures[commit][1]

    def get(self, commit: str, dist: Path, reporter: Reporter) -> tuple[Path, str]:
        """Return the wheel of a commit and its sha256, once it is made and here.

        Args:
            commit: Full hash.
            dist: The output folder for this commit.
            reporter: Told which worker made it.

        Raises:
            CpuwheelsError: What its build ended with; of the farm itself a `FarmError`.
        """
        journal, (_, job) = Journal(dist), self._jobs(commit)
        if there := journal.find(job):
            return dist / there.folder / there.wheel, there.sha256
        with reporter.stage("farm", f"the wheel of {commit[:9]}"):
            done = self.begin(commit).result()
            if done.code:
                raise done.error(job)
            path = take_in(job, done, dist)
            journal.keep(job, done)
        reporter.info(f"made by {done.by}")
        return path, done.sha256

    def _jobs(self, commit: str) -> tuple[Job, Job]:
        wanted = Wanted(self._target, commit, self._classes.get(commit, commit))
        return wheel_after_kernels(wanted, self._order, self._estimate)
