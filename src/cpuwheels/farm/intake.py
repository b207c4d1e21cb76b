"""What a worker has sent, into the output folder: compared with its digests, then put in place as a build does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import WheelError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.farm.done import put_files, refused
from cpuwheels.pipeline.built_wheel import read_built
from cpuwheels.pipeline.dist import put_in_place

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.farm.done import Done
    from cpuwheels.farm.job import Job


def take_in(job: Job, done: Done, dist: Path) -> Path:
    """Put a result's files into the output folder, the wheel last, and return the wheel.

    Args:
        job: The job.
        done: Its result, with its files.
        dist: The output folder.

    Raises:
        FarmError: They are not the files that the result names, or not a wheel of that target with its record.
        StoreError: The folder cannot be written.
    """
    target, _, version = done.folder.partition("/")
    if target != job.target or not version or "/" in version or version.startswith("."):
        raise refused(done, f"it names the folder {done.folder!r:.100}", job)
    output = dist / target / version
    staged = output.with_name(f".from-{done.key}")
    with storage_errors(dist):
        remove_tree(staged)
        try:
            put_files(done, staged)
            built = read_built(staged)
            if built.path.name != done.wheel or built.sha256 != done.sha256:
                raise refused(done, f"its record is about {built.path.name}", job)
            return put_in_place(staged, output)
        except WheelError as error:
            raise refused(done, error.what, job) from error
        finally:
            remove_tree(staged)
