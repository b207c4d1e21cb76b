"""Everything that can be wrong with an index: pages, links, digests, metadata; and the remedy for each fault."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import PublishError
from cpuwheels.index.commit_pages import Commits, Day, Row, day_of, read_page, rows_of
from cpuwheels.index.entry import VARIANT, read_entry
from cpuwheels.index.html import view_page
from cpuwheels.index.layout import (
    COMMITS,
    DAYS,
    FILES,
    FORMAT_FILE,
    JOURNAL,
    METADATA_SUFFIX,
    NIGHTLY,
    REMOVAL,
    SITES,
    companion_path,
    files_of,
    latest_path,
    wheel_path,
)
from cpuwheels.index.links import dead_links
from cpuwheels.index.overview import day_pages, root_page
from cpuwheels.index.publish import finish
from cpuwheels.index.reading import check_format, read_entries
from cpuwheels.index.rebuilders.check import bundle_faults
from cpuwheels.index.reports import reproduced_of
from cpuwheels.index.retention import views_of
from cpuwheels.index.signed import faults_of, signed_files
from cpuwheels.index.simple_pages import page_text, view_pages
from cpuwheels.index.sites import read_sites
from cpuwheels.pipeline.pylock import FILE as LOCK
from cpuwheels.verification.verified import VERIFY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.entry import Entry


class Remedy(Enum):
    """The remedy for a fault, as a next step."""

    REPAIR = f"write these pages anew: {command_line('check-index', '', '--repair')}"
    PUBLISH = "publish again, from their files, the wheels that are named"
    PAGE = "remove the damaged page, then publish its wheels again from their files"
    FILE = "publish again the wheel whose file is listed nowhere, or remove the file"
    COLLECT = f"ask the rebuilders again: {command_line('collect-rebuilds', '', '--rebuilders FILE')}"
    REBUILDERS = "wait for rebuilders, or ask those who differ which bytes they got and how"
    FIRST = f"publish a wheel: {command_line('publish', '', 'WHEEL')}"


@dataclass(frozen=True)
class Fault:
    """Something that is wrong with an index.

    Attributes:
        what: In a sentence.
        remedy: How to repair it.
        page: Path of a page that is wrong.
        text: Its correct text; None if the page must not be there.
    """

    what: str
    remedy: Remedy
    page: str = ""
    text: str | None = None


def check_index(bucket: Bucket) -> list[Fault]:
    """Return everything that is wrong with an index.

    Every wheel is read back: its digest is checked, and the pages are compared with what the wheel says of itself.

    Args:
        bucket: Where it is kept.

    Raises:
        PublishError: It was made by a newer version, or cannot be read.
    """
    names = set(bucket.names())
    if FORMAT_FILE not in names:
        return [Fault(f"there is no index: {FORMAT_FILE} is missing", Remedy.FIRST)]
    check_format(bucket)
    if not names.isdisjoint((JOURNAL, REMOVAL)):
        return [Fault("a publisher was interrupted before it was finished", Remedy.REPAIR)]
    return _faults(bucket, names)


def repair_index(bucket: Bucket) -> list[Fault]:
    """Write wrong pages anew, finish what an interrupted publisher began, and return what is still wrong.

    Args:
        bucket: Where the index is kept.

    Raises:
        PublishError: It was made by a newer version, or cannot be read or changed.
    """
    if FORMAT_FILE in bucket.names():
        with bucket.alone():
            check_format(bucket)
            # Listed now: the publisher that was waited for has changed them.
            for fault in _faults(bucket, set(bucket.names())):
                if fault.text is not None:
                    bucket.write(fault.page, fault.text.encode())
                elif fault.page:
                    bucket.remove(fault.page)
            finish(bucket)
    return check_index(bucket)


def _faults(bucket: Bucket, names: Iterable[str]) -> list[Fault]:
    views: dict[str, list[Entry]] = {view: [] for view in views_of(names)}
    faults: list[Fault] = []
    entries: dict[str, Entry] = {}
    for view in views:
        try:
            listed = read_entries(bucket, view)
        except PublishError as error:
            faults.append(Fault(error.what, Remedy.PAGE))
            continue
        faults += _page_faults(bucket, view_pages(view, listed) | (view_page(view, listed) if listed else {}))
        for entry in listed:
            faults += _same(entries.setdefault(wheel_path(entry), entry), entry, view)
        views[view] = listed
    for entry in entries.values():
        faults += _wheel_faults(bucket, entry)
    if any(fault.remedy is Remedy.PAGE for fault in faults):
        return faults  # without that one, the right text of the other pages is not known
    known = {wheel_path(one): one for view, of in views.items() if view != NIGHTLY for one in of}.values()
    listed_days = sorted(name for name in names if name.startswith(DAYS))
    days = {name: bucket.read(name) for name in listed_days if name.endswith(".json")}
    pages, commits = _commit_pages([*rows_of(known), *_missing_rows(days)])
    sites = read_sites(bucket)
    root = root_page(commits, views.get(NIGHTLY, []), sites) if commits.newest else {}
    faults += _page_faults(bucket, pages | root)
    if sites is None and SITES in names:
        faults.append(Fault(f"{SITES} is damaged", Remedy.COLLECT))
    gone = (name for name in listed_days if name not in pages)
    faults += [Fault(f"{name} lists no wheel that is there", Remedy.REPAIR, name) for name in gone]
    faults += _page_faults(bucket, {latest_path(one.target): page_text(one) for one in views.get(NIGHTLY, [])})
    expected = {path for entry in entries.values() for path in files_of(entry)}
    unlisted = sorted(name for name in names if name.startswith(FILES) and name not in expected)
    return faults + [Fault(f"{name} belongs to no wheel that is listed", Remedy.FILE) for name in unlisted]


def _page_faults(bucket: Bucket, pages: Mapping[str, str]) -> Iterator[Fault]:
    for path, text in pages.items():
        content = bucket.read(path)
        if content != text.encode():
            what = "is missing" if content is None else "does not match the wheels there"
            yield Fault(f"{path} {what}", Remedy.REPAIR, path, text)


def _wheel_faults(bucket: Bucket, entry: Entry) -> Iterator[Fault]:
    content = bucket.read(wheel_path(entry))
    if content is None:
        yield Fault(f"{wheel_path(entry)} is missing", Remedy.PUBLISH)
        return
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        yield Fault(f"{wheel_path(entry)} has other bytes than its pages say", Remedy.PUBLISH)
        return
    with tempfile.TemporaryDirectory() as name:
        wheel = Path(name) / entry.filename
        wheel.write_bytes(content)
        try:
            found, metadata = read_entry(wheel, commit=entry.commit, target=entry.target, listed=True)
        except PublishError as error:
            yield Fault(f"{wheel_path(entry)}: {error.what}", Remedy.PUBLISH)
            return
    given = {
        *("subject", "uploaded", "parity", "tried", "gaps", "served", "speed"),
        *("sandbox", "lock", "locked", "signed", "beside", "reproduced", "rebuilds"),
    } | ({"made"} if found.made == found.uploaded else set())
    for field, value in found.model_dump(exclude=given).items():
        if (said := getattr(entry, field)) != value:
            yield Fault(f"{wheel_path(entry)} has {field} {value!r}; its pages say {said!r}", Remedy.PUBLISH)
    if bucket.read(f"{wheel_path(entry)}{METADATA_SUFFIX}") != metadata:
        yield Fault(f"{wheel_path(entry)}{METADATA_SUFFIX} is not the wheel's METADATA", Remedy.PUBLISH)
    yield from _companion_faults(bucket, entry)


def _companion_faults(bucket: Bucket, entry: Entry) -> Iterator[Fault]:
    yield from (Fault(what, Remedy.PUBLISH) for what in faults_of(entry, signed_files(bucket, entry)))
    if entry.lock is not None:
        lock = bucket.read(companion_path(entry, LOCK))
        if lock is None or hashlib.sha256(lock).hexdigest() != entry.lock.sha256:
            state = "is missing" if lock is None else "has other bytes than its pages say"
            yield Fault(f"{companion_path(entry, LOCK)} {state}", Remedy.PUBLISH)
    there = {PurePosixPath(path).name for path in files_of(entry)}
    for report in entry.beside:
        content = bucket.read(companion_path(entry, report))
        if content is None:
            yield Fault(f"{companion_path(entry, report)} is missing", Remedy.PUBLISH)
        elif report.endswith(".html"):
            for name in dead_links(content.decode(errors="replace"), there):
                yield Fault(f"{companion_path(entry, report)} leads to {name}, which is not there", Remedy.PUBLISH)
    yield from _second_build_faults(bucket, entry)
    yield from (Fault(what, Remedy.COLLECT) for what in bundle_faults(bucket, entry))


def _second_build_faults(bucket: Bucket, entry: Entry) -> Iterator[Fault]:
    """Compare what pages say of a second build with its report; a report that is missing was named before."""
    content = bucket.read(companion_path(entry, VERIFY)) if VERIFY in entry.beside else b""
    if content is None:
        return
    try:
        found = reproduced_of(content, entry.sha256) if content else None
    except ValueError:
        yield Fault(f"{companion_path(entry, VERIFY)} is damaged", Remedy.PUBLISH)
        return
    if found != entry.reproduced:
        said, true = (one.state if one else "not yet reproduced" for one in (entry.reproduced, found))
        what = f"its pages say {said!r}" if said != true else "its pages say another time or other axes"
        yield Fault(f"{companion_path(entry, VERIFY)} says {true!r}; {what}", Remedy.PUBLISH)


def _same(first: Entry, second: Entry, view: str) -> Iterator[Fault]:
    if first != second:
        what = f"{view}/{VARIANT} says something else of {second.filename} than another page"
        yield Fault(what, Remedy.PUBLISH)


def _missing_rows(days: Mapping[str, bytes | None]) -> Iterator[Row]:
    """Yield the days' entries of missing wheels; no other page has them."""
    for content in days.values():
        try:
            rows = read_page(Day, content).rows
        except ValueError:
            continue  # it is written anew
        yield from (row.model_copy(update={"wheels": {}}) for row in rows if row.missing)


def _commit_pages(rows: Iterable[Row]) -> tuple[dict[str, str], Commits]:
    """Return the pages of commits that belong to some rows, and the page of the newest."""
    days: dict[str, Day] = {}
    commits = Commits()
    for row in rows:
        day = day_of(row)
        days[day], commits = days.get(day, Day()).with_row(row), commits.with_row(row)
    pages = {path: text for day, page in days.items() for path, text in day_pages(day, page).items()}
    return pages | ({COMMITS: page_text(commits)} if days else {}), commits
