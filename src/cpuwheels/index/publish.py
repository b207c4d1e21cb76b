"""Adding a wheel to an index: files first, then the pages that refer to them, the newest's last.

What was published is never replaced by other bytes. Before the first page is changed a journal says what is being
published; the next publisher finishes what an interrupted one began. At every moment each link leads to what it names.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from cpuwheels.errors import PublishError
from cpuwheels.index.commits import Commits, commit_pages, day_of, read_page, row_of
from cpuwheels.index.entry import Entry  # noqa: TC001  (pydantic reads the annotations)
from cpuwheels.index.layout import (
    COMMITS,
    FORMAT_FILE,
    JOURNAL,
    JSON,
    METADATA_SUFFIX,
    NIGHTLY,
    beside_path,
    day_path,
    files_of,
    latest_path,
    project_folder,
    views,
    wheel_path,
)
from cpuwheels.index.pages import page_text, read_view, view_pages
from cpuwheels.index.people import root_page, view_page
from cpuwheels.model.base import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.commits import Page, Row, Wheel


class Format(Strict):
    """The version of an index's layout."""

    format: int = 1
    project: str = "vllm"


class Journal(Strict):
    """What is being published."""

    format: Literal[1] = 1
    entry: Entry
    nightly: bool


@dataclass(frozen=True)
class Publication:
    """A wheel to be published.

    Attributes:
        entry: What the index says of it.
        wheel: The file.
        metadata: Its ``METADATA``.
        reports: What belongs to it, by name; named in the entry, too.
        nightly: Whether it becomes the newest of its target, unless that is of a later commit.
    """

    entry: Entry
    wheel: Path
    metadata: bytes
    reports: Mapping[str, bytes]
    nightly: bool


@dataclass(frozen=True)
class Published:
    """What came of a publication.

    Attributes:
        entry: What the index says of the wheel.
        new: Whether it was not there before.
        views: The folders whose pages list it.
    """

    entry: Entry
    new: bool
    views: tuple[str, ...]


def publish(bucket: Bucket, publication: Publication) -> Published:
    """Publish a wheel.

    Args:
        bucket: Where the index is kept; made one if it is empty.
        publication: The wheel.

    Raises:
        PublishError: The index was made by a newer version or is damaged, another wheel of that name is there, another
            publisher is at work, or something cannot be written.
    """
    entry = publication.entry
    with bucket.alone():
        check_format(bucket)
        finish(bucket)
        known = _published(bucket, entry)
        if known is not None and known.sha256 != entry.sha256:
            raise PublishError(
                f"another {entry.filename} was published on {known.uploaded}, with other bytes",
                where=bucket.name,
                next_step="what is published is never replaced: give the new wheel a build tag",
            )
        if known is not None:
            entry = _with_known(entry, known)
        newest = [one for one in read_entries(bucket, NIGHTLY) if one.target == entry.target]
        wanted = publication.nightly or any(one.filename == entry.filename for one in newest)
        nightly = wanted and all(one.made <= entry.made for one in newest)
        journal = Journal(entry=entry, nightly=nightly)
        _begin(bucket, publication, journal, new=known is None)
        _write_pages(bucket, journal)
        return Published(entry, known is None, tuple(views(entry, nightly=nightly)))


def _begin(bucket: Bucket, publication: Publication, journal: Journal, *, new: bool) -> None:
    """Write a wheel, what belongs to it, and the journal; if that cannot be done, nothing of a new wheel is left."""
    entry, reports = journal.entry, publication.reports
    bucket.require_room(entry.size + sum(map(len, reports.values())))
    try:
        bucket.add(wheel_path(entry), publication.wheel)
        bucket.add(f"{wheel_path(entry)}{METADATA_SUFFIX}", publication.metadata)
        for name, content in reports.items():
            bucket.write(beside_path(entry, name), content)
        bucket.write(JOURNAL, journal.model_dump_json(indent=1).encode())
    except PublishError:
        for path in files_of(entry) if new else ():
            with suppress(PublishError):
                bucket.remove(path)
        raise


def finish(bucket: Bucket) -> Entry | None:
    """Finish what an interrupted publisher began, and return which wheel it was; the caller holds the index.

    Raises:
        PublishError: The journal is damaged, or something cannot be written.
    """
    content = bucket.read(JOURNAL)
    if content is None:
        return None
    try:
        journal = Journal.model_validate_json(content)
    except ValidationError as error:
        raise damaged(bucket, JOURNAL, error) from error
    _write_pages(bucket, journal)
    return journal.entry


def _write_pages(bucket: Bucket, journal: Journal) -> None:
    entry = journal.entry
    for view in views(entry, nightly=False):
        listed = [*_others(bucket, view, entry), entry]
        bucket.write_pages(view_pages(view, listed) | view_page(view, listed))
    pages = _commit_pages(bucket, row_of(entry))
    bucket.write_pages(pages)
    newest = read_entries(bucket, NIGHTLY)
    if journal.nightly:
        bucket.write_pages({latest_path(entry.target): page_text(entry)})
        newest = [*(one for one in newest if one.target != entry.target), entry]
        bucket.write_pages(view_pages(NIGHTLY, newest) | view_page(NIGHTLY, newest))
    bucket.write_pages(root_page(Commits.model_validate_json(pages[COMMITS]), newest))
    bucket.remove(JOURNAL)


def _commit_pages(bucket: Bucket, row: Row) -> dict[str, str]:
    try:
        return commit_pages(row, bucket.read(day_path(day_of(row))), bucket.read(COMMITS))
    except ValueError as error:
        raise damaged(bucket, COMMITS, error) from error


def note_missing(bucket: Bucket, row: Row) -> None:
    """Say in an index why a wheel is not there.

    Args:
        bucket: Where the index is kept; made one if it is empty.
        row: The commit or release, with what is missing.

    Raises:
        PublishError: The index cannot be understood or changed, or another publisher is at work.
    """
    with bucket.alone():
        check_format(bucket)
        finish(bucket)
        pages = _commit_pages(bucket, row)
        commits, newest = Commits.model_validate_json(pages[COMMITS]), read_entries(bucket, NIGHTLY)
        bucket.write_pages(pages | root_page(commits, newest))


def wheel_before(bucket: Bucket, entry: Entry) -> Wheel | None:
    """Return the wheel of the same target that was published of the commit or release before one.

    Raises:
        PublishError: The page of the newest commits is damaged.
    """
    return read_commit_page(bucket, COMMITS, Commits).before(entry)


def read_commit_page(bucket: Bucket, path: str, model: type[Page]) -> Page:
    """Return a page of commits; an empty one if there is none.

    Raises:
        PublishError: It is damaged.
    """
    try:
        return read_page(model, bucket.read(path))
    except ValueError as error:
        raise damaged(bucket, path, error) from error


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
        raise damaged(bucket, path, error) from error


def _with_known(entry: Entry, known: Entry) -> Entry:
    """Return an entry with what was said of the same wheel before and lies not beside it now."""
    kept = {"uploaded": known.uploaded, "beside": tuple(sorted({*known.beside, *entry.beside}))}
    parity = known.parity if entry.parity == "not run" else entry.parity
    return entry.model_copy(update=kept | {"parity": parity, "speed": entry.speed or known.speed})


def _others(bucket: Bucket, view: str, entry: Entry) -> list[Entry]:
    return [one for one in read_entries(bucket, view) if one.filename != entry.filename]


def _published(bucket: Bucket, entry: Entry) -> Entry | None:
    """Return what is published under a wheel's name."""
    found = (one for view in views(entry, nightly=True) for one in read_entries(bucket, view))
    return next((one for one in found if one.filename == entry.filename), None)


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
        raise damaged(bucket, FORMAT_FILE, error) from error
    if found != Format():
        raise PublishError(
            f"the index has format {found.format} of {found.project}; this version writes {Format().format} of "
            f"{Format().project}",
            where=bucket.name,
            next_step="use the version of cpuwheels that made it, or another place",
        )


def damaged(bucket: Bucket, path: str, error: Exception) -> PublishError:
    """Return the error of a file that cannot be understood."""
    return PublishError(
        f"{path} is damaged: {str(error).partition(chr(10))[0]}",
        where=bucket.name,
        next_step="restore it from a copy; nothing was changed",
    )
