"""Reading an index: its pages, and whether this version understands it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import PublishError
from cpuwheels.core.models import Strict
from cpuwheels.index.commit_pages import NEWEST, Day, merged, read_page
from cpuwheels.index.layout import FORMAT_FILE, JSON, day_path, project_folder
from cpuwheels.index.simple_pages import read_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.commit_pages import Page, Row
    from cpuwheels.index.entry import Entry


class Format(Strict):
    """The version of an index's layout."""

    format: int = 1
    project: str = "vllm"


def check_format(bucket: Bucket) -> None:
    """Refuse an index that this version does not understand; note this version in an empty one.

    Raises:
        PublishError: It was made by another version, or its note of that is damaged.
    """
    content = bucket.read(FORMAT_FILE)
    if content is None:
        bucket.write(FORMAT_FILE, Format().model_dump_json(indent=1).encode())
        return
    try:
        found = Format.model_validate_json(content)
    except ValidationError as error:
        raise damaged(bucket, FORMAT_FILE, error, next_step="restore it from a copy") from error
    if found != Format():
        raise PublishError(
            f"the index has format {found.format} of {found.project}; this version writes {Format().format} of "
            f"{Format().project}",
            where=bucket.name,
            next_step="use the version of cpuwheels that made it, or another place",
        )


def damaged(bucket: Bucket, path: str, error: Exception, *, next_step: str) -> PublishError:
    """Return the error for a damaged file."""
    what = f"{path} is damaged: {str(error).partition(chr(10))[0]}"
    return PublishError(what, where=bucket.name, next_step=next_step)


def read_commit_page(bucket: Bucket, path: str, model: type[Page]) -> Page:
    """Return a page of commits; an empty one if there is none.

    Raises:
        PublishError: It is damaged.
    """
    try:
        return read_page(model, bucket.read(path))
    except ValueError as error:
        next_step = f"write it anew: {command_line('check-index', '', '--repair')}"
        raise damaged(bucket, path, error, next_step=next_step) from error


def read_entries(bucket: Bucket, view: str) -> list[Entry]:
    """Return the wheels that a view lists; none if there is no such view.

    Raises:
        PublishError: Its page is damaged.
    """
    path = f"{project_folder(view)}/{JSON}"
    page = bucket.read(path)
    try:
        return read_view(page) if page is not None else []
    except ValueError as error:
        raise damaged(bucket, path, error, next_step="remove it, then publish its wheels again") from error


def newest_rows(bucket: Bucket, days: Iterable[str], known: Mapping[str, Day]) -> tuple[Row, ...]:
    """Return the newest commits.

    Args:
        bucket: Where the index is kept.
        days: Those that have a page, the newest first.
        known: Pages of days that are not written yet.

    Raises:
        PublishError: A page is damaged.
    """
    rows: tuple[Row, ...] = ()
    for day in days:
        if len(rows) >= NEWEST:
            break
        for row in (known.get(day) or read_commit_page(bucket, day_path(day), Day)).rows:
            rows = merged(rows, row)
    return rows[:NEWEST]
