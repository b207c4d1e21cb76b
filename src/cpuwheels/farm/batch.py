"""Many wheels: built and tested by whoever runs jobs, and put into this machine's output folder."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.errors import CpuwheelsError, FarmError
from cpuwheels.core.progress import Progress, clock
from cpuwheels.farm.done import NOT_RUN, Done
from cpuwheels.farm.executor import run_jobs
from cpuwheels.farm.graph import still_needed
from cpuwheels.farm.intake import take_in
from cpuwheels.farm.page import BatchPage
from cpuwheels.pipeline.report.write import refresh_if_built

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.executor import Executor
    from cpuwheels.farm.job import Job
    from cpuwheels.farm.journal import Journal
    from cpuwheels.farm.opinion import Opinions


@dataclass(frozen=True)
class Came:
    """What came of a job.

    Attributes:
        job: The job.
        state: ``there`` before, ``done`` now, ``failed``, or ``not begun`` since a job before it failed.
        done: Its result, if there is one.
        error: What is wrong otherwise.
    """

    job: Job
    state: Literal["there", "done", "failed", "not begun"]
    done: Done | None = None
    error: CpuwheelsError | None = None


def run_batch(
    jobs: Sequence[Job],
    executor: Executor,
    journal: Journal,
    paths: Paths,
    reporter: Reporter,
    opinions: Opinions | None = None,
    came: Callable[[Came], None] = lambda _came: None,
) -> list[Came]:
    """Run the jobs whose results are not there, and put what comes into the output folder.

    Args:
        jobs: Each after those whose results it uses.
        executor: Runs them.
        journal: What was done before.
        paths: Folders to read and write.
        reporter: Told of each job that has ended.
        opinions: Asks another machine about each wheel; None for no second opinion.
        came: Called with what came of each job, as soon as it is known.

    Raises:
        FarmError: No machine can do one of the jobs.
        StoppedError: The run was stopped; what was done by then is kept.
    """
    stored = {job.key: done for job in jobs if (done := journal.find(job))}
    needed = still_needed(jobs, stored.keys())
    for key in {key for job in needed for key in job.after} & stored.keys():
        executor.know(stored[key], paths.dist)
    reporter.info(f"{len(needed)} jobs; of {len(jobs)} there are {len(stored)} already")

    settle = _Settling(jobs, stored, journal, paths, reporter, opinions)

    def tell(ready: int, count: int) -> None:
        reporter.progress(Progress(ready, count, unit="jobs"))

    there = [Came(job, "there", stored[job.key]) for job in jobs if job.key in stored]
    wanted = {job.key for job in needed} | stored.keys()
    with BatchPage(paths.dist, [job for job in jobs if job.key in wanted]) as page:
        reporter.info(f"page: {page.path}")
        executor.tell_begun(page.began)

        def ended(one: Came) -> None:
            settle.over(one.job)
            page.came(one)
            came(one)

        for one in there:
            ended(one)
        run = partial(
            run_jobs, executor=executor, settle=settle, tell=tell, ended=lambda job, result: ended(_came(job, result))
        )
        results = _in_phases(needed, run, executor, paths) if opinions else run(needed)
    found = {one.job.key: one for one in there}
    found |= {job.key: _came(job, results[job.key]) for job in jobs if job.key in results}
    return [found[job.key] for job in jobs if job.key in found]


def _in_phases(
    needed: Sequence[Job],
    run: Callable[[Sequence[Job]], dict[str, Done | CpuwheelsError]],
    executor: Executor,
    paths: Paths,
) -> dict[str, Done | CpuwheelsError]:
    """Run the builds and then the tests, so that only a wheel that two machines agree on is tested."""
    builds = [job for job in needed if job.kind in {"kernels", "wheel"}]
    tests = [job for job in needed if job not in builds]
    for job in tests:  # before hours of builds
        executor.require(job)
    results = run(builds)
    if tests:
        for job in builds:
            executor.know(_settled(job, results[job.key]), paths.dist)
        results |= run(tests)
    return results


class _Settling:
    """Takes results in: of wheels what two machines agree on, of tests what is about the wheel that was taken in."""

    def __init__(
        self,
        jobs: Sequence[Job],
        stored: Mapping[str, Done],
        journal: Journal,
        paths: Paths,
        reporter: Reporter,
        opinions: Opinions | None,
    ) -> None:
        self._journal, self._paths, self._reporter, self._opinions = journal, paths, reporter, opinions
        self._digests: dict[str, Future[str]] = {job.key: Future() for job in jobs if job.kind == "wheel"}
        for key in self._digests.keys() & stored.keys():
            self._digests[key].set_result(stored[key].sha256)
        self._places: defaultdict[str, Lock] = defaultdict(Lock)

    def __call__(self, job: Job, done: Done) -> Done:
        if job.kind == "wheel":
            return self._wheel(job, done)
        if done.folder and done.sha256 != self._digests[job.after[0]].result():
            raise FarmError(
                f"{done.by or 'this machine'} tested another wheel for {job} than the one that was made",
                where=done.by,
                next_step="do not use that machine before it is known why; run the command again",
            )
        return self._take(job, done)

    def _wheel(self, job: Job, done: Done) -> Done:
        digest = ""
        try:
            if self._opinions and not done.code:
                done = self._opinions.settled(job, done)
            done = self._take(job, done)
            digest = done.sha256
        finally:
            self._digests[job.key].set_result(digest)  # its tests wait for it
        return done

    def over(self, job: Job) -> None:
        """Let the tests of a wheel end whose result never came."""
        digest = self._digests.get(job.key)
        if digest is not None and not digest.done():
            digest.set_result("")

    def _take(self, job: Job, done: Done) -> Done:
        """Put what a result has in place, and return it without its files, of which there may be gigabytes."""
        if done.folder and done.content:
            with self._places[done.folder]:
                wheel = take_in(job, done, self._paths.dist)
                refresh_if_built(wheel)  # a test's own page knows of no other test
        if not done.code:
            self._journal.keep(job, done)
        _tell(job, done, self._reporter)
        return replace(done, content=b"", files={})


def _settled(job: Job, result: Done | CpuwheelsError) -> Done:
    """Return what came of a job as its result."""
    if isinstance(result, CpuwheelsError):
        return Done(job.key, code=result.exit_code, output=result.what)
    return result


def _tell(job: Job, done: Done, reporter: Reporter) -> None:
    by = f" by {done.by}" if done.by else ""
    if done.code:
        state = "not begun" if done.code == NOT_RUN else f"failed with status {done.code}"
        reporter.announce(f"{job}: {state}{by}")
        return
    wheel = f": {done.folder}/{done.wheel}" if job.kind == "wheel" else ""
    reporter.info(f"{job} done in {clock(done.seconds)}{by}{wheel}")


def _came(job: Job, result: Done | CpuwheelsError) -> Came:
    if isinstance(result, CpuwheelsError):
        return Came(job, "failed", error=result)
    if result.code:
        return Came(job, "not begun" if result.code == NOT_RUN else "failed", result, result.error(job))
    return Came(job, "done", result)


def require_all(came: Sequence[Came]) -> None:
    """Raise the first error of a batch, with all that failed, once the others are done.

    Raises:
        CpuwheelsError: A job failed; of the class of the first one's error.
    """
    # What failed by itself comes before what was not begun because of that.
    errors = [one.error for one in sorted(came, key=lambda one: one.state != "failed") if one.error]
    if not errors:
        return
    first = errors[0]
    first.next_step = (
        f"{first.next_step}; of {len(came)} jobs {len(errors)} are not done: run it again, and these alone are"
    )
    raise first
