"""Which commits have which wheels: a page for each day of commits, and one of the newest.

A day's page is small whatever the index's age, so that adding a wheel writes two small files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from packaging.version import Version
from pydantic import ValidationError

from cpuwheels.index.entry import Entry, Parity  # noqa: TC001  (pydantic reads the annotations)
from cpuwheels.index.layout import COMMITS, day_path, wheel_path
from cpuwheels.index.pages import page_text
from cpuwheels.model.base import Strict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

NEWEST = 200
"""Rows of the page of the newest."""


class Wheel(Strict):
    """One wheel of a commit."""

    filename: str
    path: str
    """Below the index's root."""
    sha256: str
    size: int
    parity: Parity
    beside: tuple[str, ...]
    """Names of the reports in the wheel's folder."""


class Row(Strict):
    """A commit, or a release whose commit is not known, and its wheels by target."""

    commit: str | None
    version: str
    made: str
    """When the commit was made: ISO 8601, UTC."""
    wheels: dict[str, Wheel]

    @property
    def name(self) -> str:
        """What tells it from others: the folder of its pages."""
        return self.commit or Version(self.version).public


class Day(Strict):
    """The commits of one day, the newest first."""

    format: Literal[1] = 1
    rows: tuple[Row, ...] = ()

    def with_entry(self, entry: Entry) -> Day:
        """Return the page with one more wheel."""
        return Day(rows=merged(self.rows, entry))

    def without(self, names: Collection[str]) -> Day:
        """Return the page without some rows."""
        return Day(rows=tuple(row for row in self.rows if row.name not in names))


class Commits(Strict):
    """The newest commits, and the days that have a page."""

    format: Literal[1] = 1
    newest: tuple[Row, ...] = ()
    days: tuple[str, ...] = ()
    """Newest first; each has a page `cpuwheels.index.layout.day_path`."""

    def with_entry(self, entry: Entry) -> Commits:
        """Return the page with one more wheel."""
        days = sorted({*self.days, day_of(entry)}, reverse=True)
        return Commits(newest=merged(self.newest, entry)[:NEWEST], days=tuple(days))


def day_of(entry: Entry) -> str:
    """Return the day of a wheel's commit: ``YYYY-MM-DD``."""
    return entry.made[:10]


def merged(rows: Iterable[Row], entry: Entry) -> tuple[Row, ...]:
    """Return rows with one more wheel, the newest commit first."""
    wheel = Wheel(
        filename=entry.filename, path=wheel_path(entry), sha256=entry.sha256, size=entry.size, parity=entry.parity,
        beside=entry.beside,
    )  # fmt: skip
    own = Row(commit=entry.commit, version=entry.version, made=entry.made, wheels={entry.target: wheel})
    found = {row.name: row for row in rows}
    if before := found.get(own.name):
        own = before.model_copy(update={"wheels": dict(sorted((before.wheels | own.wheels).items()))})
    return tuple(sorted((found | {own.name: own}).values(), key=lambda row: (row.made, row.name), reverse=True))


def commit_pages(entry: Entry, day: bytes | None, commits: bytes | None) -> dict[str, str]:
    """Return the pages that list a wheel by its commit, by their paths.

    Args:
        entry: The wheel.
        day: The page of its day, if there is one.
        commits: The page of the newest, if there is one.

    Raises:
        ValueError: One of them is none that this version writes.
    """
    try:
        of_day = Day.model_validate_json(day) if day else Day()
        newest = Commits.model_validate_json(commits) if commits else Commits()
    except ValidationError as error:
        raise ValueError(f"no page that this version writes: {error.errors()[0]['msg']}") from error
    return {
        day_path(day_of(entry)): page_text(of_day.with_entry(entry)),
        COMMITS: page_text(newest.with_entry(entry)),
    }
