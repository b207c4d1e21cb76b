"""Adding a wheel to an index: files first, then the pages that refer to them, the newest's last.

A published file is never replaced by other bytes. Before the first page is changed, a journal records what is being
published; the next publisher finishes what an interrupted one began. Every link works at every moment.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from packaging.version import Version
from pydantic import ValidationError

from cpuwheels.core.errors import PublishError
from cpuwheels.core.models import Strict
from cpuwheels.index.commit_pages import NEWEST, Commits, Day, day_of, row_of, rows_of
from cpuwheels.index.entry import Entry  # noqa: TC001  (pydantic reads the annotations)
from cpuwheels.index.html import view_page
from cpuwheels.index.known import known_entry, with_known
from cpuwheels.index.layout import (
    BUNDLE,
    COMMITS,
    JOURNAL,
    METADATA_SUFFIX,
    NIGHTLY,
    companion_path,
    day_path,
    files_of,
    latest_path,
    views,
    wheel_path,
)
from cpuwheels.index.overview import day_pages, root_page
from cpuwheels.index.reading import check_format, damaged, newest_rows, read_commit_page, read_entries
from cpuwheels.index.removal import finish_removal
from cpuwheels.index.signed import listed
from cpuwheels.index.simple_pages import page_text, view_pages
from cpuwheels.index.sites import read_sites
from cpuwheels.pipeline.pylock import FILE as LOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.commit_pages import Row, Wheel


class Journal(Strict):
    """What is being published."""

    format: Literal[1] = 1
    entry: Entry
    nightly: bool
    rebuilds: str | None = None
    """Rebuilders' statements about it as they are to be; empty for no file, None for what is there."""


@dataclass(frozen=True)
class Publication:
    """A wheel to be published.

    Attributes:
        entry: What the index says of it.
        wheel: The file.
        metadata: Its ``METADATA``.
        reports: What belongs to it, by name; named in the entry, too.
        nightly: Whether it becomes the newest of its target, unless that is of a later commit.
        lock: Its lock, if it has one; one that was published before stays.
        signed: Files of its provenance by name, which the entry tells; one that was published before stays.
    """

    entry: Entry
    wheel: Path
    metadata: bytes
    reports: Mapping[str, bytes]
    nightly: bool
    lock: bytes | None = None
    signed: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """The outcome of a publication.

    Attributes:
        entry: What the index says of the wheel.
        new: Whether it was not there before.
        views: The folders whose pages list it.
        healed: Whether a file of it that was there was damaged or missing, and is whole again.
    """

    entry: Entry
    new: bool
    views: tuple[str, ...]
    healed: bool = False


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
        known = known_entry(bucket, entry)
        if known is not None:
            entry = with_known(bucket, entry, known)
        newest = [one for one in read_entries(bucket, NIGHTLY) if one.target == entry.target]
        wanted = publication.nightly or any(one.filename == entry.filename for one in newest)
        nightly = wanted and all(one.made <= entry.made for one in newest)
        journal = Journal(entry=entry, nightly=nightly)
        healed = _begin(bucket, publication, journal, known)
        _write_pages(bucket, journal)
        return Published(entry, known is None, tuple(views(entry, nightly=nightly)), healed)


def _begin(bucket: Bucket, publication: Publication, journal: Journal, known: Entry | None) -> bool:
    """Write a wheel, the files that belong to it, and the journal; if that fails, nothing of a new wheel is left.

    Returns:
        Whether a file of a wheel that was published before had to be written.
    """
    entry, reports = journal.entry, publication.reports
    lock = publication.lock
    signed = {name: content for name, content in publication.signed.items() if listed(entry, content)}
    bucket.require_room(entry.size + sum(map(len, (*reports.values(), *signed.values(), lock or b""))))
    try:
        written = _put(bucket, wheel_path(entry), publication.wheel)
        written |= _put(bucket, f"{wheel_path(entry)}{METADATA_SUFFIX}", publication.metadata)
        if lock is not None and entry.lock == publication.entry.lock:
            written |= _put(bucket, companion_path(entry, LOCK), lock)
        for name, content in signed.items():
            there = known is not None and listed(known, content)
            written |= _put(bucket, companion_path(entry, name), content) and there
        for name, content in reports.items():
            bucket.write(companion_path(entry, name), content)
        bucket.write(JOURNAL, journal.model_dump_json(indent=1).encode())
    except PublishError:
        for path in () if known else files_of(entry):
            with suppress(PublishError):
                bucket.remove(path)
        raise
    return written and known is not None


def _put(bucket: Bucket, path: str, content: bytes | Path) -> bool:
    """Write a file unless it is there already with these bytes, and return whether it was written."""
    if bucket.add(path, content):
        return True
    whole = content if isinstance(content, bytes) else content.read_bytes()
    if bucket.read(path) == whole:
        return False
    bucket.write(path, whole)
    return True


def finish(bucket: Bucket) -> Entry | None:
    """Finish what an interrupted publisher began, and return which wheel it published; the caller holds the index.

    Raises:
        PublishError: The journal is damaged, or something cannot be written.
    """
    finish_removal(bucket)
    content = bucket.read(JOURNAL)
    if content is None:
        return None
    try:
        journal = Journal.model_validate_json(content)
    except ValidationError as error:
        raise damaged(bucket, JOURNAL, error, next_step="remove it, then publish the wheel again") from error
    _write_pages(bucket, journal)
    return journal.entry


def publish_rebuilds(bucket: Bucket, entry: Entry, statements: bytes) -> None:
    """Publish what rebuilders say of a wheel that is there; the caller holds the index and has finished what was begun.

    Args:
        bucket: Where the index is kept.
        entry: The wheel, with what its pages are to say.
        statements: The file of signed statements; empty if there are none.

    Raises:
        PublishError: Something cannot be written.
    """
    nightly = any(one.filename == entry.filename for one in read_entries(bucket, NIGHTLY))
    journal = Journal(entry=entry, nightly=nightly, rebuilds=statements.decode())
    bucket.write(JOURNAL, journal.model_dump_json(indent=1).encode())
    _write_pages(bucket, journal)


def _write_pages(bucket: Bucket, journal: Journal) -> None:
    entry = journal.entry
    if journal.rebuilds:
        bucket.write(f"{wheel_path(entry)}{BUNDLE}", journal.rebuilds.encode())
    listed = {view: [*_others(bucket, view, entry), entry] for view in views(entry, nightly=False)}
    for view, entries in listed.items():
        bucket.write_pages(view_pages(view, entries) | view_page(view, entries))
    commits = _write_commit_pages(bucket, entry, listed.values())
    newest = read_entries(bucket, NIGHTLY)
    if journal.nightly:
        bucket.write_pages({latest_path(entry.target): page_text(entry)})
        newest = [*(one for one in newest if one.target != entry.target), entry]
        bucket.write_pages(view_pages(NIGHTLY, newest) | view_page(NIGHTLY, newest))
    bucket.write_pages(root_page(commits, newest, read_sites(bucket)))
    if journal.rebuilds == "":
        bucket.remove(f"{wheel_path(entry)}{BUNDLE}")
    bucket.remove(JOURNAL)


def _write_commit_pages(bucket: Bucket, entry: Entry, views_of_it: Iterable[list[Entry]]) -> Commits:
    """Write the pages that list a wheel by its commit, and return that of the newest.

    The rows of its commit and of its version are made anew: the wheel of a release moves from its version's row to its
    commit's when the commit becomes known.
    """
    day, names = day_of(entry), {row_of(entry).name, Version(entry.version).public}
    entries = {wheel_path(one): one for of in views_of_it for one in of}.values()
    rows = [row for row in rows_of(entries) if row.name in names]
    page = read_commit_page(bucket, day_path(day), Day).changed(names, [row for row in rows if day_of(row) == day])
    before = read_commit_page(bucket, COMMITS, Commits)
    commits = before.changed(names, rows)
    if len(before.newest) == NEWEST > len(commits.newest):  # there may be older ones
        commits = commits.model_copy(update={"newest": newest_rows(bucket, commits.days, {day: page})})
    bucket.write_pages(day_pages(day, page) | {COMMITS: page_text(commits)})
    return commits


def note_missing(bucket: Bucket, row: Row) -> None:
    """Record in an index why a wheel is missing.

    Args:
        bucket: Where the index is kept; made one if it is empty.
        row: The commit or release, with what is missing.

    Raises:
        PublishError: The index cannot be understood or changed, or another publisher is at work.
    """
    with bucket.alone():
        check_format(bucket)
        finish(bucket)
        day = day_of(row)
        page = read_commit_page(bucket, day_path(day), Day).with_row(row)
        commits = read_commit_page(bucket, COMMITS, Commits).with_row(row)
        bucket.write_pages(day_pages(day, page) | {COMMITS: page_text(commits)})
        bucket.write_pages(root_page(commits, read_entries(bucket, NIGHTLY), read_sites(bucket)))


def wheel_before(bucket: Bucket, entry: Entry) -> Wheel | None:
    """Return the wheel of the same target that was published of the commit or release before one.

    Raises:
        PublishError: The page of the newest commits is damaged.
    """
    return read_commit_page(bucket, COMMITS, Commits).before(entry)


def _others(bucket: Bucket, view: str, entry: Entry) -> list[Entry]:
    return [one for one in read_entries(bucket, view) if one.filename != entry.filename]
