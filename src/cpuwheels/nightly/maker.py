"""One wheel of a nightly job: built, tried on this machine, published."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels import pipeline, trials
from cpuwheels.console import Reporter
from cpuwheels.git import FULL_HASH
from cpuwheels.index.session import publish_wheel
from cpuwheels.nightly.run import Made
from cpuwheels.options import ParityOptions
from cpuwheels.parity.files import write_reports
from cpuwheels.parity.results import require_parity
from cpuwheels.platforms import is_foreign
from cpuwheels.storage import remove_tree, storage_errors, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config import Places
    from cpuwheels.errors import CpuwheelsError
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.model.matrix import Matrix
    from cpuwheels.nightly.plan import Job
    from cpuwheels.options import BuildOptions, Level

KEPT = "kept"
"""Folder of what was not published, below the job's own."""

REASON = "why.txt"


class WheelMaker:
    """Makes and publishes wheels.

    Args:
        places: Folders to read and write; its output folder is the job's own.
        matrix: The configuration.
        bucket: Where wheels are published.
        options: How they are built; their source is each time the job's.
        level: How many cases of each operator are tried.
        reporter: Whose console the steps of each wheel are told on.
    """

    def __init__(
        self,
        places: Places,
        matrix: Matrix,
        bucket: Bucket,
        options: BuildOptions,
        level: Level,
        reporter: Reporter,
    ) -> None:
        self._places, self._matrix, self._bucket = places, matrix, bucket
        self._options, self._level, self._reporter = options, level, reporter

    def make(self, job: Job) -> Made:
        """Build, try and publish a wheel, and take it out of the output folder.

        A wheel that nothing here runs, not even emulated, is published without having been tried, and its page says so.

        Raises:
            ParityError: A result is wrong; the reports lie beside the wheel.
            CpuwheelsError: Any stage's own error.
        """
        places, target = self._own(job), self._matrix.buildable(job.target)
        reporter = Reporter(f"{job.target} {job.source[:9]}", self._reporter.console)
        finished = pipeline.build(places, self._matrix, target.id, replace(self._options, source=job.source), reporter)
        if not is_foreign(target) or target.root is not None:
            options = ParityOptions(wheel=finished.path, level=self._level)
            parity = trials.check_wheel(places, self._matrix, target.id, finished.path, options, reporter)
            require_parity(parity, write_reports(finished.path.parent, parity))
        commit = job.source if FULL_HASH.fullmatch(job.source) else None
        published = publish_wheel(
            self._bucket, finished.path, self._matrix, commit=commit, target=target.id, nightly=True
        )  # fmt: skip
        with storage_errors(places.dist):
            remove_tree(places.dist)
        return Made(published.entry.filename)

    def keep(self, job: Job, error: CpuwheelsError) -> str:
        """Put aside what there is of a wheel that was not published, with the reason, and return the folder."""
        places = self._own(job)
        kept = self._places.dist / KEPT / f"{job.target}-{job.source[:12]}"
        with storage_errors(kept):
            remove_tree(kept)
            kept.parent.mkdir(parents=True, exist_ok=True)
            if places.dist.is_dir():
                places.dist.replace(kept)
            write_atomic(kept / REASON, f"{error}\n")
        return str(kept)

    def _own(self, job: Job) -> Places:
        folder: Path = self._places.dist / f"{job.target}-{job.source[:12]}"
        return replace(self._places, dist=folder)
