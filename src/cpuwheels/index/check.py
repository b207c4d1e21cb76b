"""Everything that can be wrong with an index: pages, links, digests, metadata."""

from __future__ import annotations

import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.errors import PublishError
from cpuwheels.index.commits import Commits, Day, day_of
from cpuwheels.index.entry import VARIANT, read_entry
from cpuwheels.index.layout import (
    COMMITS,
    FILES,
    FORMAT_FILE,
    JOURNAL,
    METADATA_SUFFIX,
    NIGHTLY,
    beside_path,
    day_path,
    latest_path,
    wheel_path,
)
from cpuwheels.index.pages import page_text, view_pages
from cpuwheels.index.people import root_page, view_page
from cpuwheels.index.publish import check_format, read_entries
from cpuwheels.index.retention import files_of, views_of

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
        if view != NIGHTLY and listed:
            faults += _page_faults(bucket, view_page(view, listed))
        for entry in listed:
            faults += _same(entries.setdefault(wheel_path(entry), entry), entry, view)
        views[view] = listed
    for entry in entries.values():
        faults += _wheel_faults(bucket, entry)
    known = [entry for view, listed in views.items() if view != NIGHTLY for entry in listed]
    pages, commits = _commit_pages(known)
    faults += _page_faults(bucket, pages | (root_page(commits) if known else {}))
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
    given = {"uploaded", "parity", "beside"} | ({"made"} if found.made == found.uploaded else set())
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


def _commit_pages(entries: Iterable[Entry]) -> tuple[dict[str, str], Commits]:
    """Return the pages of commits that some wheels come to, and the one of the newest."""
    listed = sorted(entries, key=day_of)
    pages = {}
    commits = Commits()
    for day, of_day in groupby(listed, day_of):
        page = Day()
        for entry in of_day:
            page, commits = page.with_entry(entry), commits.with_entry(entry)
        pages[day_path(day)] = page_text(page)
    return pages | ({COMMITS: page_text(commits)} if listed else {}), commits
