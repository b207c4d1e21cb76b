"""One wheel of a nightly job: built and tested on this machine, and published, here or by a process of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from cpuwheels.config.host import is_foreign
from cpuwheels.config.options import ParityOptions, SpeedOptions
from cpuwheels.config.serving_options import ServeOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CpuwheelsError, UsageError
from cpuwheels.core.filesystem import remove_tree, storage_errors, write_atomic
from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo
from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.index.commit_pages import Missing, Row
from cpuwheels.index.entry import read_entry, stamp, subject_line
from cpuwheels.index.nightly.queue import WRONG, Made
from cpuwheels.index.nightly.second_build import build_again
from cpuwheels.index.publish import note_missing, wheel_before
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.pipeline import build, lock_wheel, serve_wheel, test_wheel
from cpuwheels.pipeline.pylock import FILE as LOCK
from cpuwheels.pipeline.report.write import refresh_if_built
from cpuwheels.verification.benchmark.result import SPEED
from cpuwheels.verification.parity.reports import write_files, write_reports
from cpuwheels.verification.parity.results import require_parity
from cpuwheels.verification.serving.result import SERVE, require_served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.attestation.sign import Signing
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import BuildOptions, Level
    from cpuwheels.config.paths import Paths
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.nightly.plan import Job
    from cpuwheels.index.nightly.summary import SecondBuild

KEPT = "kept"
"""Folder of what was not published, below the job's own."""

REASON = "why.txt"
_REASON = 500
"""Characters of a reason on the index's page."""


class WheelMaker:
    """Makes and publishes wheels.

    Args:
        paths: Folders to read and write; its output folder is the job's own.
        matrix: The configuration.
        bucket: Where wheels are published.
        options: How they are built; the source is always the job's.
        level: How many cases of each operator are tested.
        reporter: Reports the steps of each wheel on its console.
        address: Where the users of the index reach it.
        version_of: Returns the version of a source, as its history says it; a wheel with another one is refused.
        subject_of: Returns the first line of a commit's message, for the index's pages.
        turn: Target whose first wheel stays in its folder, for `second_build`.
        signing: How the provenance of wheels is signed; only where nothing is built.
    """

    def __init__(
        self,
        paths: Paths,
        matrix: Matrix,
        bucket: Bucket,
        options: BuildOptions,
        level: Level,
        reporter: Reporter,
        address: str | None = None,
        *,
        version_of: Callable[[str], str] | None = None,
        subject_of: Callable[[str], str] | None = None,
        turn: str | None = None,
        signing: Signing | None = None,
    ) -> None:
        self._places, self._matrix, self._bucket = paths, matrix, bucket
        self._options, self._level, self._reporter = options, level, reporter
        self._address, self._version_of, self._signing = address, version_of, signing
        self._subject_of, self._turn = subject_of, turn
        self._waiting: tuple[Job, Path] | None = None

    def make(self, job: Job) -> Made:
        """Build, test and publish a wheel, and take it out of the output folder.

        A wheel that cannot run here, not even emulated, is published without a test, and its page says so. One for
        another machine is not served.

        Raises:
            ParityError: A result is wrong; the reports are next to the wheel.
            ServeError: A server with the wheel does not answer as it should; likewise.
            CpuwheelsError: Any stage's own error.
        """
        wheel = self._tested(job)
        made = self._publish(job, wheel)
        if job.target == self._turn and self._waiting is None:
            self._waiting = (job, wheel)
        else:
            self._clear(job)
        return made

    def second_build(self) -> SecondBuild | None:
        """Build the wheel whose turn it is a second time, and publish what came of it; None if it was not made.

        Whatever comes of it, the wheel stays published.
        """
        if self._waiting is None:
            return None
        job, wheel = self._waiting
        options, tell = self._options, partial(self._tell, job, wheel)
        came = build_again(self._own(job), self._matrix, options, job, wheel, self._reporter, tell)
        self._clear(job)
        return came

    def _tell(self, job: Job, wheel: Path) -> None:
        """Publish what came of a second build: the wheel again, with one more report."""
        self._publish(job, wheel)

    def _tested(self, job: Job) -> Path:
        """Build, test and lock a wheel, and return it; one whose requirements cannot be resolved has no lock.

        Raises:
            ParityError: A result is wrong; the reports are next to the wheel.
            ServeError: A server with the wheel does not answer as it should; likewise.
            CpuwheelsError: Any stage's own error.
        """
        paths, target = self._own(job), self._matrix.buildable(job.target)
        reporter = Reporter(f"{job.target} {job.source[:9]}", self._reporter.console)
        wheel = self._made(job, paths, target, reporter)
        self._time(wheel, paths, target, reporter)
        if not wheel.with_name(LOCK).exists():
            # A locked build fetches only what is listed. The lock is no part of the wheel, but for its users.
            lock_wheel.lock_wheel(paths, self._matrix, target.id, wheel, reporter)
        return wheel

    def _made(self, job: Job, paths: Paths, target: Target, reporter: Reporter) -> Path:
        """Build a wheel, test its kernels and serve it.

        Raises:
            CpuwheelsError: As for `_tested`.
        """
        finished = build.build(paths, self._matrix, target.id, replace(self._options, source=job.source), reporter)
        if not is_foreign(target) or target.root is not None:
            options = ParityOptions(wheel=finished.path, level=self._level)
            parity = test_wheel.check_wheel(paths, self._matrix, target.id, finished.path, options, reporter)
            reports = write_reports(finished.path.parent, parity)
            refresh_if_built(finished.path)
            require_parity(parity, reports)
        self._serve(finished.path, paths, target, reporter)
        return finished.path

    def _publish(self, job: Job, wheel: Path) -> Made:
        """Publish a wheel if it is the one that the job is about.

        Raises:
            CpuwheelsError: It is not, or cannot be published.
        """
        published = publish_wheel(
            self._bucket,
            wheel,
            self._matrix,
            commit=commit_of(job),
            target=self._matrix.buildable(job.target).id,
            subject=self._subject(job),
            nightly=True,
            address=self._address,
            version=self._version_of(job.source) if self._version_of else None,
            locked=self._options.locked,
            signing=self._signing,
        )
        return Made(published.entry.filename)

    def _clear(self, job: Job) -> None:
        paths = self._own(job)
        with storage_errors(paths.dist):
            remove_tree(paths.dist)

    def _serve(self, wheel: Path, paths: Paths, target: Target, reporter: Reporter) -> None:
        """Serve models with the wheel and compare the answers.

        Raises:
            ServeError: The server failed or answers otherwise than transformers.
            CpuwheelsError: Any stage's own error.
        """
        models = self._matrix.nightly.serve
        if not models or is_foreign(target):
            return
        options = ServeOptions(models=models)
        served, logs = serve_wheel.serve_wheel(paths, self._matrix, target.id, wheel, options, reporter)
        (report,) = write_files(wheel.parent, {SERVE: served.as_text()})
        refresh_if_built(wheel)
        require_served(served, report, logs)

    def _time(self, wheel: Path, paths: Paths, target: Target, reporter: Reporter) -> None:
        """Time the wheel's kernels against those of the wheel before it, if they differ and can be timed here.

        Raises:
            CpuwheelsError: Any stage's own error, except that there is nothing to compare.
        """
        rounds = self._matrix.nightly.speed_rounds
        if not rounds or is_foreign(target):
            return
        entry, _ = read_entry(wheel)
        before = wheel_before(self._bucket, entry)
        if before is None or before.kernels == entry.kernels:
            return
        content = self._bucket.read(before.path)
        if content is None:
            reporter.info(f"{before.filename} is not in the index any more: no speed against it")
            return
        against = paths.dist / "before" / before.filename
        with storage_errors(against):
            write_atomic(against, content)
        options = SpeedOptions(against=against, rounds=rounds)
        try:
            result = test_wheel.compare_speed(paths, self._matrix, target.id, wheel, options, reporter)
        except UsageError as error:
            reporter.info(f"no speed against {before.filename}: {error.what}")
            return
        write_files(wheel.parent, {SPEED: result.as_text()})

    def keep(self, job: Job, error: CpuwheelsError) -> str:
        """Put the files of a wheel that was not published into a folder, with the reason, and return the folder.

        The index then says why the wheel is missing.
        """
        kept = self._keep(job, error)
        self._say_missing(job, error)
        return kept

    def _keep(self, job: Job, error: CpuwheelsError) -> str:
        paths = self._own(job)
        kept = self._places.dist / KEPT / f"{job.target}-{job.source[:12]}"
        with storage_errors(kept):
            remove_tree(kept)
            kept.parent.mkdir(parents=True, exist_ok=True)
            if paths.dist.is_dir():
                paths.dist.replace(kept)
            write_atomic(kept / REASON, f"{error}\n")
        return str(kept)

    def _say_missing(self, job: Job, error: CpuwheelsError) -> None:
        state: Literal["wrong", "failed"] = "wrong" if isinstance(error, WRONG) else "failed"
        reason = printable(without_userinfo(error.what))[:_REASON]
        missing = Missing(state=state, reason=reason, tried=stamp(datetime.now(UTC)))
        commit = commit_of(job)
        version = "" if commit else job.source
        subject = subject_line(self._subject(job))
        row = Row(commit=commit, version=version, subject=subject, made=job.made, missing={job.target: missing})
        try:
            note_missing(self._bucket, row)
        except CpuwheelsError as trouble:
            self._reporter.info(f"the index does not say why there is no wheel: {trouble.what}")

    def _subject(self, job: Job) -> str:
        """Return the first line of the message of a job's commit; nothing if it is not known."""
        return self._subject_of(job.source) if self._subject_of else ""

    def _own(self, job: Job) -> Paths:
        folder: Path = self._places.dist / f"{job.target}-{job.source[:12]}"
        return replace(self._places, dist=folder)


def commit_of(job: Job) -> str | None:
    """Return the full hash of a job's source; None if it is a release."""
    return job.source if FULL_HASH.fullmatch(job.source) else None
