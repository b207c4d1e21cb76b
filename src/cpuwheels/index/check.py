"""Everything that can be wrong with an index: pages, links, digests, metadata."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.errors import PublishError
from cpuwheels.index.commits import Commits, Day, Row, day_of, read_page, row_of
from cpuwheels.index.entry import VARIANT, read_entry
from cpuwheels.index.layout import (
    COMMITS,
    DAYS,
    FILES,
    FORMAT_FILE,
    JOURNAL,
    METADATA_SUFFIX,
    NIGHTLY,
    beside_path,
    day_path,
    files_of,
    latest_path,
    wheel_path,
)
from cpuwheels.index.pages import page_text, view_pages
from cpuwheels.index.people import root_page, view_page
from cpuwheels.index.publish import check_format, read_entries
from cpuwheels.index.retention import views_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.entry import Entry


def check_index(bucket: Bucket) -> list[str]:
    """Return everything that is wrong with an index, one line each.

    Every wheel is read back: its digest, and that what is said of it is what it says of itself.

    Args:
        bucket: Where it is kept.

    Raises:
        PublishError: It was made by a newer version, or cannot be read.
    """
    names = set(bucket.names())
    if FORMAT_FILE not in names:
        return [f"there is no index: {FORMAT_FILE} is missing"]
    check_format(bucket)
    if JOURNAL in names:
        return ["a publisher was interrupted: publish something, or the same wheel again, and it is finished"]
    views: dict[str, list[Entry]] = {view: [] for view in views_of(names)}
    faults: list[str] = []
    entries: dict[str, Entry] = {}
    for view in views:
        try:
            listed = read_entries(bucket, view)
        except PublishError as error:
            faults.append(error.what)
            continue
        faults += _page_faults(bucket, view_pages(view, listed))
        if listed:
            faults += _page_faults(bucket, view_page(view, listed))
        for entry in listed:
            faults += _same(entries.setdefault(wheel_path(entry), entry), entry, view)
        views[view] = listed
    for entry in entries.values():
        faults += _wheel_faults(bucket, entry)
    known = [entry for view, listed in views.items() if view != NIGHTLY for entry in listed]
    try:
        missing = list(_missing_rows(bucket, names))
    except ValueError as error:
        missing = []
        faults.append(str(error))
    pages, commits = _commit_pages([*map(row_of, known), *missing])
    faults += _page_faults(bucket, pages | (root_page(commits, views.get(NIGHTLY, [])) if commits.newest else {}))
    faults += _page_faults(bucket, {latest_path(one.target): page_text(one) for one in views.get(NIGHTLY, [])})
    expected = {path for entry in entries.values() for path in files_of(entry)}
    faults += [
        f"{name} belongs to no wheel that is listed" for name in sorted(names - expected) if name.startswith(FILES)
    ]
    return faults


def _page_faults(bucket: Bucket, pages: dict[str, str]) -> Iterator[str]:
    for path, text in pages.items():
        content = bucket.read(path)
        if content is None:
            yield f"{path} is missing"
        elif content != text.encode():
            yield f"{path} does not say what the wheels there are"


def _wheel_faults(bucket: Bucket, entry: Entry) -> Iterator[str]:
    content = bucket.read(wheel_path(entry))
    if content is None:
        yield f"{wheel_path(entry)} is missing"
        return
    with tempfile.TemporaryDirectory() as name:
        wheel = Path(name) / entry.filename
        wheel.write_bytes(content)
        try:
            found, metadata = read_entry(wheel, commit=entry.commit, target=entry.target)
        except PublishError as error:
            yield f"{wheel_path(entry)}: {error.what}"
            return
    given = {"uploaded", "parity", "speed", "beside"} | ({"made"} if found.made == found.uploaded else set())
    for field, value in found.model_dump(exclude=given).items():
        if getattr(entry, field) != value:
            yield f"{wheel_path(entry)} has {field} {value!r}; its pages say {getattr(entry, field)!r}"
    if bucket.read(f"{wheel_path(entry)}{METADATA_SUFFIX}") != metadata:
        yield f"{wheel_path(entry)}{METADATA_SUFFIX} is not the wheel's METADATA"
    for report in entry.beside:
        if bucket.read(beside_path(entry, report)) is None:
            yield f"{beside_path(entry, report)} is missing"


def _same(first: Entry, second: Entry, view: str) -> Iterator[str]:
    if first != second:
        yield f"{view}/{VARIANT} says something else of {second.filename} than another page"


def _missing_rows(bucket: Bucket, names: Iterable[str]) -> Iterator[Row]:
    """Yield what the pages of days say of wheels that are not there; nothing else knows it.

    Raises:
        ValueError: A page cannot be understood.
    """
    for path in (name for name in names if name.startswith(DAYS)):
        try:
            rows = read_page(Day, bucket.read(path)).rows
        except ValueError as error:
            raise ValueError(f"{path} is {error}") from error
        yield from (row.model_copy(update={"wheels": {}}) for row in rows if row.missing)


def _commit_pages(rows: Iterable[Row]) -> tuple[dict[str, str], Commits]:
    """Return the pages of commits that some rows come to, and the one of the newest."""
    days: dict[str, Day] = {}
    commits = Commits()
    for row in rows:
        day = day_of(row)
        days[day], commits = days.get(day, Day()).with_row(row), commits.with_row(row)
    pages = {day_path(day): page_text(page) for day, page in days.items()}
    return pages | ({COMMITS: page_text(commits)} if days else {}), commits
