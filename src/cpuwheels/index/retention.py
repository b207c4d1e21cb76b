"""Removal of old commits from an index: pages first, then the files that nothing refers to any more."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.index.commit_pages import Commits, Day, Row, day_of
from cpuwheels.index.entry import stamp
from cpuwheels.index.html import view_page
from cpuwheels.index.layout import (
    COMMITS,
    DAYS,
    JSON,
    NIGHTLY,
    day_page_path,
    day_path,
    files_of,
    project_folder,
    wheel_path,
)
from cpuwheels.index.overview import day_pages, root_page
from cpuwheels.index.publish import finish
from cpuwheels.index.reading import check_format, newest_rows, read_commit_page, read_entries
from cpuwheels.index.removal import remove_files
from cpuwheels.index.simple_pages import page_text, view_pages
from cpuwheels.index.sites import read_sites

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from cpuwheels.index.bucket import Bucket


def views_of(names: Iterable[str]) -> list[str]:
    """Return the views among the files of an index, sorted."""
    suffix = f"/{project_folder('').lstrip('/')}/{JSON}"
    return sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix))


def remove_old(bucket: Bucket, keep_days: int, now: datetime) -> list[str]:
    """Remove the wheels of commits that are older than some days, and return those commits.

    Releases stay, and the newest wheel of each target.

    Args:
        bucket: Where the index is kept.
        keep_days: Days for which a commit's wheels are kept.
        now: From which they count.

    Raises:
        PublishError: The index cannot be understood or changed, or another publisher is at work.
    """
    oldest = stamp(now - timedelta(days=keep_days))
    with bucket.alone():
        check_format(bucket)
        finish(bucket)
        names = bucket.names()
        listed = {view: read_entries(bucket, view) for view in views_of(names)}
        kept = {wheel_path(one) for view, of in listed.items() if not FULL_HASH.fullmatch(view) for one in of}
        old = {
            view: of
            for view, of in listed.items()
            if FULL_HASH.fullmatch(view) and all(one.made < oldest and wheel_path(one) not in kept for one in of)
        }
        without = _without_wheels(bucket, names, oldest)
        if gone := {day_of(entry) for of in old.values() for entry in of} | {day_of(row) for row in without}:
            _forget(bucket, gone, old.keys() | {row.name for row in without})
        paths: list[str] = []
        for view, of in old.items():
            paths += [*reversed(view_pages(view, of) | view_page(view, of))]
            paths += [path for one in of for path in files_of(one)]
        remove_files(bucket, paths)
    return sorted(old)


def _without_wheels(bucket: Bucket, names: Iterable[str], oldest: str) -> list[Row]:
    """Return the rows older than a moment that only say why a wheel is missing."""
    paths = [name for name in names if name.startswith(DAYS) and name.endswith(".json")]
    paths = [name for name in paths if name <= day_path(oldest[:10])]
    rows = [row for path in paths for row in read_commit_page(bucket, path, Day).rows]
    return [row for row in rows if not row.wheels and row.made < oldest]


def _forget(bucket: Bucket, of_days: Iterable[str], names: Collection[str]) -> None:
    """Take commits out of the pages that list them."""
    emptied = set()
    days = {}
    for day in sorted(of_days):
        days[day] = read_commit_page(bucket, day_path(day), Day).without(names)
        if not days[day].rows:
            emptied.add(day)
    left = [day for day in read_commit_page(bucket, COMMITS, Commits).days if day not in emptied]
    commits = Commits(newest=newest_rows(bucket, left, days), days=tuple(left))
    bucket.write_pages(
        {COMMITS: page_text(commits)} | root_page(commits, read_entries(bucket, NIGHTLY), read_sites(bucket))
    )
    for day, page in days.items():
        if day in emptied:
            bucket.remove(day_page_path(day))
            bucket.remove(day_path(day))
        else:
            bucket.write_pages(day_pages(day, page))
