"""What was done before: one file for each job, by its key, with the digests of what it left in the output folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import WheelError
from cpuwheels.core.filesystem import make_folders, storage_errors, write_atomic
from cpuwheels.core.models import Strict
from cpuwheels.core.plain_file import read_plain
from cpuwheels.farm.done import Done
from cpuwheels.farm.job import JobKind  # noqa: TC001  (pydantic reads the annotation)
from cpuwheels.pipeline.built_wheel import RECORD, were_compiled

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.farm.job import Job

FOLDER = "farm/done"
"""Below the output folder."""

_LARGEST = 1 << 16


class Entry(Strict):
    """A job that succeeded."""

    format: int = 1
    kind: JobKind
    target: str
    source: str
    timed: JobKind
    """What it did, for estimates: a wheel for which kernels were compiled counts as kernels."""
    folder: str = ""
    """Of the wheel, below the output folder; empty for kernels, which are in the stores."""
    wheel: str = ""
    sha256: str = ""
    report: str = ""
    """Name of the report that the job added."""
    seconds: float
    by: str


class Journal:
    """The jobs that were done into an output folder.

    Args:
        dist: The output folder.
    """

    def __init__(self, dist: Path) -> None:
        self._dist, self._folder = dist, dist / FOLDER

    def find(self, job: Job) -> Done | None:
        """Return the result of a job, if it is still in the output folder as it was."""
        entry = self._read(self._folder / f"{job.key}.json")
        if entry is None or not entry.wheel:
            return None
        wheel = self._dist / entry.folder / entry.wheel
        try:
            whole = file_digest(wheel) == entry.sha256
        except OSError:
            return None
        needed = filter(None, (RECORD, entry.report))
        if not whole or not all((wheel.parent / name).is_file() for name in needed):
            return None
        return Done(job.key, folder=entry.folder, wheel=entry.wheel, sha256=entry.sha256, by=entry.by)

    def keep(self, job: Job, done: Done) -> None:
        """Note what a job came to, once its files are in the output folder.

        Raises:
            StoreError: It cannot be written.
        """
        entry = Entry(
            kind=job.kind,
            target=job.target,
            source=job.source,
            timed="kernels" if job.kind == "wheel" and self._compiled(job, done) else job.kind,
            folder=done.folder,
            wheel=done.wheel,
            sha256=done.sha256,
            report=f"{job.kind}.json" if job.kind in {"parity", "serve"} else "",
            seconds=round(done.seconds, 1),
            by=done.by,
        )
        with storage_errors(self._dist):
            make_folders(self._folder)
            write_atomic(self._folder / f"{job.key}.json", entry.model_dump_json(indent=1) + "\n")

    def seconds(self) -> dict[tuple[str, str], list[float]]:
        """Return how long jobs took, by what they did and target, the latest last."""
        found: dict[tuple[str, str], list[float]] = {}
        for path in sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime):
            if entry := self._read(path):
                found.setdefault((entry.timed, entry.target), []).append(entry.seconds)
        return found

    def _compiled(self, job: Job, done: Done) -> bool:
        """Return whether the kernels of a wheel were compiled for it, and not found in stores."""
        try:
            return were_compiled(self._dist / done.folder)
        except WheelError:
            return not job.after

    @staticmethod
    def _read(path: Path) -> Entry | None:
        try:
            return Entry.model_validate_json(read_plain(path, _LARGEST))
        except (OSError, ValidationError):
            return None
