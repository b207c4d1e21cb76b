"""The wheels of a nightly job made and tested by a farm: its jobs are all sent at once, and taken as they come home."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from cpuwheels.core.errors import CpuwheelsError, PostponedError
from cpuwheels.core.filesystem import make_folders, replace_tree, storage_errors
from cpuwheels.farm.batch import run_batch
from cpuwheels.farm.estimate import estimates
from cpuwheels.farm.executor import FarmGoneError
from cpuwheels.farm.graph import Order, Wanted, make_graph
from cpuwheels.farm.job import Needs, project_identity
from cpuwheels.farm.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import BuildOptions, Level
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.budget import Budget
    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.batch import Came
    from cpuwheels.farm.executor import Executor
    from cpuwheels.farm.job import Job as FarmJob
    from cpuwheels.farm.opinion import Opinions
    from cpuwheels.index.nightly.plan import Job

FOLDER = "farm"
"""What comes home, below the job's own folder, until it is taken."""

_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Farm:
    """Who does the jobs.

    Attributes:
        executor: Sends them to the workers.
        opinions: Asks another worker about each wheel; None for no second opinion.
        priority: Of the jobs.
    """

    executor: Executor
    opinions: Opinions | None = None
    priority: int = 0

    def can(self, what: str) -> bool:
        """Return whether a worker can do something, such as ``build:x86``."""
        return self.executor.can_do(Needs(can=what))


def nightly_graph(
    jobs: Sequence[Job],
    farm: Farm,
    matrix: Matrix,
    paths: Paths,
    build: BuildOptions,
    level: Level,
    classes: Mapping[str, str],
    reporter: Reporter,
) -> tuple[FarmJob, ...]:
    """Return the farm's jobs: each wheel, its parity and its serving.

    A wheel for macOS, which cannot be emulated, is published without a test if no worker is a Mac. Others are tested,
    or the night ends with what a worker lacks. A wheel that no worker can serve is not served.

    Args:
        jobs: The wheels.
        farm: Whose workers do them.
        matrix: The configuration.
        paths: Folders of the project.
        build: How wheels are built; what is about this machine is not sent.
        level: How many cases of parity.
        classes: By source the class of its kernels; those of one class are compiled once.
        reporter: Told what is not tested.
    """
    # What a worker has of its machine, and its clone, are its own.
    options = tuple(replace(build, source=None, repo=None, memory=None).as_arguments())
    identity = project_identity(paths)
    graph: list[FarmJob] = []
    estimate = estimates(paths, matrix, Journal(paths.dist / FOLDER).seconds())
    for target in dict.fromkeys(job.target for job in jobs):
        tested = matrix.target(target).system == "Linux" or farm.can(f"test:{target}")
        served = matrix.nightly.serve if farm.can(f"serve:{target}") else ()
        if not tested:
            reporter.info(f"no worker can test {target}: its wheels are published untested")
        elif matrix.nightly.serve and not served:
            reporter.info(f"no worker can serve {target}: its wheels are tested, and served by nobody")
        order = Order(
            identity=identity,
            options=options,
            level=level if tested else None,
            models=tuple(served),
            priority=farm.priority,
        )
        wanted = [Wanted(target, job.source, classes.get(job.source, "")) for job in jobs if job.target == target]
        graph += make_graph(wanted, order, estimate)
    return tuple(graph)


class FarmNight:
    """The jobs of one night on a farm; a context that gives up what is unfinished when it ends.

    Args:
        jobs: The wheels.
        graph: The farm's jobs for them, as from `nightly_graph`.
        farm: Who does them.
        paths: Folders; the output folder is the nightly job's own.
        reporter: Told of each of the farm's jobs that has ended.
    """

    def __init__(
        self, jobs: Sequence[Job], graph: Sequence[FarmJob], farm: Farm, paths: Paths, reporter: Reporter
    ) -> None:
        self._graph, self._farm, self._reporter = graph, farm, reporter
        self._paths = replace(paths, dist=paths.dist / FOLDER)
        self._left = {(job.target, job.source): job for job in jobs}
        self._open: dict[tuple[str, str], set[str]] = {name: set() for name in self._left}
        for one in graph:
            if one.kind != "kernels":
                self._open[one.target, one.source].add(one.key)
        self._came: dict[tuple[str, str], list[Came]] = {name: [] for name in self._left}
        self._news: SimpleQueue[Came | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="farm", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._farm.executor.cancel()
        self._thread.join()

    def as_they_come(self, budget: Budget) -> Iterator[Job]:
        """Yield each wheel's job once all about it is known, and at the end those that the budget leaves no time for.

        Args:
            budget: What may be used; once it is spent the farm's jobs are given up.

        Raises:
            FarmError: No worker can do one of the jobs.
        """
        while self._left and not budget.spent():
            try:
                news = self._news.get(timeout=_LOOK_SECONDS)
            except Empty:
                continue
            if news is None:
                break
            name = (news.job.target, news.job.source)
            if news.job.kind == "kernels":
                continue
            self._came[name].append(news)
            self._open[name].discard(news.job.key)
            if not self._open[name]:
                yield self._left.pop(name)
        self._farm.executor.cancel()
        if self._error is not None and self._left and not budget.spent():
            raise self._error
        yield from self._left.values()

    def take(self, job: Job, output: Path) -> Path:
        """Move what came of a job into an output folder, and return the wheel; it may be asked for again.

        Args:
            job: The job.
            output: The folder.

        Raises:
            PostponedError: The farm is gone.
            CpuwheelsError: There is no wheel; of the class that its build ended with.
        """
        came = self._came[job.target, job.source]
        for one in came:
            if isinstance(one.error, FarmGoneError):
                raise PostponedError(one.error.what, where=one.error.where, next_step=one.error.next_step)
        wheel = next((one for one in came if one.job.kind == "wheel"), None)
        if wheel is None or self._open[job.target, job.source]:
            raise PostponedError("the farm was given up before it was done", where=str(job), next_step="run it again")
        if wheel.done is None or not wheel.done.wheel:
            raise wheel.error or PostponedError("the farm gave it up", where=str(wheel.job), next_step="run it again")
        folder, place = self._paths.dist / wheel.done.folder, output / wheel.done.folder
        if not folder.exists() and (place / wheel.done.wheel).is_file():
            return place / wheel.done.wheel  # it was taken before: what followed is attempted again
        with storage_errors(output):
            make_folders(place.parent)
            replace_tree(folder, place)
        return place / wheel.done.wheel

    def failures(self, job: Job) -> list[CpuwheelsError]:
        """Return why tests of a job's wheel were not done, or what they ended with."""
        return [one.error for one in self._came[job.target, job.source] if one.error]

    def _run(self) -> None:
        try:
            run_batch(
                self._graph,
                self._farm.executor,
                Journal(self._paths.dist),
                self._paths,
                self._reporter,
                self._farm.opinions,
                came=self._news.put,
            )
        except BaseException as error:  # noqa: BLE001  (raised where the jobs are waited for)
            self._error = error
        finally:
            self._news.put(None)
