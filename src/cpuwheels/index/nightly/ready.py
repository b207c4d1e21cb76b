"""What a build leaves for the publisher, a process of its own: for each job a folder with its wheel, or with why not.

Whoever makes a commit decides on everything in its folder. Which commit, target and version it is for is not read from
there: the publisher knows what was asked for.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

from cpuwheels.core.errors import CpuwheelsError, NightlyError, ParityError, PublishError
from cpuwheels.core.filesystem import appearing, make_folders, replace_tree, storage_errors, sync_tree, write_atomic
from cpuwheels.core.models import Strict
from cpuwheels.core.plain_file import read_plain
from cpuwheels.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.index.nightly.plan import Job

READY = "ready"
"""Folder of what is to be published, below the job's own."""

FAILURE = "failure.json"
_LARGEST = 64 << 10
_LARGEST_WHEEL = 2 << 30
_REASON = 500
"""Characters of a reason on the index's page."""


class Failure(Strict):
    """Why there is no wheel."""

    format: Literal[1] = 1
    state: Literal["failed", "wrong"]
    """It could not be made, or a test of it failed."""
    reason: str = Field(max_length=_LARGEST)


def ready_folder(folder: Path, job: Job) -> Path:
    """Return where a job's wheel is.

    Args:
        folder: Of everything that is ready.
        job: Which wheel.
    """
    return folder / f"{job.target}-{job.source}"


def leave_wheel(folder: Path, job: Job, built: Path) -> None:
    """Move the folder of a finished wheel to where the publisher looks for it.

    Raises:
        StoreError: It cannot be moved.
    """
    place = ready_folder(folder, job)
    with storage_errors(place):
        make_folders(place.parent)
        sync_tree(built.parent)  # the reports of its tests have come since it was built
        replace_tree(built.parent, place)


def leave_failure(folder: Path, job: Job, failure: Failure) -> None:
    """Write why there is no wheel where the publisher looks for it.

    Raises:
        StoreError: It cannot be written.
    """
    place = ready_folder(folder, job)
    with storage_errors(place), appearing(place) as fresh:
        write_atomic(fresh / FAILURE, failure.model_dump_json(indent=1) + "\n")


def find_ready(folder: Path, job: Job) -> Path | None:
    """Return the wheel that a build left for a job; None if none was built.

    Raises:
        NightlyError: It could not be made.
        ParityError: A test of it failed.
        PublishError: What is there is neither one wheel nor one reason.
    """
    place = ready_folder(folder, job)
    if not place.is_dir() or place.is_symlink():
        return None
    wheels = sorted(place.glob("*.whl"))
    if len(wheels) == 1:
        return wheels[0]
    if wheels:
        raise _none(place, f"it has {len(wheels)} wheels")
    raise _failure(place)


@contextmanager
def own_copy(wheel: Path, names: Iterable[str]) -> Iterator[Path]:
    """Yield a copy of a wheel and of files next to it in a folder of this user's alone.

    What is checked is then what is published, even if whoever built it still writes.

    Raises:
        PublishError: One is no file, or larger than any such file.
    """
    with tempfile.TemporaryDirectory(prefix="cpuwheels-publish-") as folder:
        for name in (wheel.name, *names):
            try:
                content = read_plain(wheel.with_name(name), _LARGEST_WHEEL)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise PublishError(
                    f"{name} is not what a build leaves: {error.strerror}",
                    where=wheel.parent,
                    next_step="build it again",
                ) from error
            with storage_errors(Path(folder)):
                (Path(folder) / name).write_bytes(content)
        yield Path(folder) / wheel.name


def _failure(place: Path) -> CpuwheelsError:
    try:
        failure = Failure.model_validate_json(read_plain(place / FAILURE, _LARGEST))
    except (OSError, ValidationError) as error:
        return _none(place, str(error).partition("\n")[0])
    reason = printable(failure.reason)[:_REASON]
    if failure.state == "wrong":
        return ParityError(reason, where=place)
    return NightlyError(reason, where=place)


def _none(place: Path, why: str) -> PublishError:
    return PublishError(
        f"{place.name} holds neither a wheel nor the reason why there is none: {why}",
        where=place,
        next_step="build it again",
    )
