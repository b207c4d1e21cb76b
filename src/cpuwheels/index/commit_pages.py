"""Which commits have which wheels: a page for each day of commits, and one of the newest.

A day's page is small however old the index is, so adding a wheel writes two small files.
"""

# ruff: noqa: TC001  (pydantic reads the annotations)

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from packaging.version import Version
from pydantic import Field, StringConstraints, ValidationError

from cpuwheels.core.models import Commit, Moment, Sha256, Strict
from cpuwheels.index.agreement import Agreement
from cpuwheels.index.entry import (
    Entry,
    FileName,
    Line,
    ParityResult,
    Reproduced,
    Speed,
    Target,
    TestResult,
    VersionText,
    WheelName,
)
from cpuwheels.index.layout import FILES, wheel_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

DayName = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]

NEWEST = 200
"""Rows of the page of the newest."""


class Wheel(Strict):
    """One wheel of a commit."""

    filename: WheelName
    path: str = Field(pattern=rf"^{FILES}[0-9a-f]+/[^/]+$")
    """Path below the index's root."""
    sha256: Sha256
    size: int = Field(ge=0)
    parity: ParityResult
    served: TestResult = "not run"
    kernels: str = ""
    """Key of its kernels."""
    speed: Speed | None = None
    reproduced: Reproduced | None = None
    rebuilds: Agreement | None = None
    beside: tuple[FileName, ...]
    """Names of the reports in the wheel's folder."""


class Missing(Strict):
    """A wheel that could not be published."""

    state: Literal["failed", "wrong"]
    """It could not be made, or a test of it failed."""
    reason: str
    tried: Moment
    """When: ISO 8601, UTC."""


class Row(Strict):
    """A commit, or a release whose commit is not known, and its wheels by target."""

    commit: Commit | None
    version: VersionText | Literal[""]
    """Empty if it has no wheel."""
    subject: Line = ""
    """First line of the commit's message; empty if it is not known."""
    made: Moment
    """When the commit was made: ISO 8601, UTC."""
    wheels: dict[Target, Wheel] = Field(default_factory=dict)
    missing: dict[Target, Missing] = Field(default_factory=dict)
    """Why a target has no wheel of it, if building one failed."""

    @property
    def name(self) -> str:
        """What tells it from others: the folder of its pages."""
        return self.commit or Version(self.version).public

    def merged(self, other: Row) -> Row:
        """Return the row with the values of another row of the same commit."""
        wheels = self.wheels | other.wheels
        missing = {target: why for target, why in (self.missing | other.missing).items() if target not in wheels}
        made = [row.made for row in (self, other) if row.wheels] or [self.made]
        return Row(
            commit=self.commit,
            version=max(self.version, other.version),
            subject=other.subject or self.subject,
            made=min(made),
            wheels=dict(sorted(wheels.items())),
            missing=dict(sorted(missing.items())),
        )


class Day(Strict):
    """The commits of one day, the newest first."""

    format: Literal[1] = 1
    rows: tuple[Row, ...] = ()

    def with_row(self, row: Row) -> Day:
        """Return the page with one more wheel, or one that is missing."""
        return Day(rows=merged(self.rows, row))

    def changed(self, names: Collection[str], rows: Iterable[Row]) -> Day:
        """Return the page with other wheels in rows of some names."""
        return Day(rows=changed(self.rows, names, rows))

    def without(self, names: Collection[str]) -> Day:
        """Return the page without some rows."""
        return Day(rows=tuple(row for row in self.rows if row.name not in names))


class Commits(Strict):
    """The newest commits, and the days that have a page."""

    format: Literal[1] = 1
    newest: tuple[Row, ...] = ()
    days: tuple[DayName, ...] = ()
    """Newest first; each has a page `cpuwheels.index.layout.day_path`."""

    def with_row(self, row: Row) -> Commits:
        """Return the page with one more wheel, or one that is missing."""
        days = sorted({*self.days, day_of(row)}, reverse=True)
        return Commits(newest=merged(self.newest, row)[:NEWEST], days=tuple(days))

    def changed(self, names: Collection[str], rows: Sequence[Row]) -> Commits:
        """Return the page with other wheels in rows of some names."""
        days = sorted({*self.days, *map(day_of, rows)}, reverse=True)
        return Commits(newest=changed(self.newest, names, rows)[:NEWEST], days=tuple(days))

    def before(self, entry: Entry) -> Wheel | None:
        """Return the wheel of the same target that came before one: a commit's, or for a release a release's."""
        older = (row for row in self.newest if row.made <= entry.made and bool(row.commit) == bool(entry.commit))
        wheels = (row.wheels[entry.target] for row in older if entry.target in row.wheels)
        return next((wheel for wheel in wheels if wheel.filename != entry.filename), None)


Page = TypeVar("Page", Day, Commits)


def day_of(made: Entry | Row) -> str:
    """Return the day of a wheel's commit: ``YYYY-MM-DD``."""
    return made.made[:10]


def row_of(entry: Entry) -> Row:
    """Return a row with one wheel."""
    wheel = Wheel(
        filename=entry.filename,
        path=wheel_path(entry),
        sha256=entry.sha256,
        size=entry.size,
        parity=entry.parity,
        served=entry.served,
        kernels=entry.kernels,
        speed=entry.speed,
        reproduced=entry.reproduced,
        rebuilds=entry.rebuilds,
        beside=entry.beside,
    )
    return Row(
        commit=entry.commit, version=entry.version, subject=entry.subject, made=entry.made, wheels={entry.target: wheel}
    )


def rows_of(entries: Iterable[Entry]) -> list[Row]:
    """Return rows of one wheel each, in the order of publication: of two of one target the later counts."""
    return [row_of(entry) for entry in sorted(entries, key=lambda one: (one.uploaded, one.filename))]


def merged(rows: Iterable[Row], row: Row) -> tuple[Row, ...]:
    """Return rows with one more, the newest commit first."""
    found = {one.name: one for one in rows}
    if before := found.get(row.name):
        row = before.merged(row)
    return tuple(sorted((found | {row.name: row}).values(), key=lambda one: (one.made, one.name), reverse=True))


def changed(rows: Iterable[Row], names: Collection[str], new: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows; those of some names have just the wheels and subjects of the new rows and keep what is missing."""
    bare = (row.model_copy(update={"wheels": {}, "subject": ""}) if row.name in names else row for row in rows)
    found = tuple(row for row in bare if row.wheels or row.missing)
    for row in new:
        found = merged(found, row)
    return found


def read_page(model: type[Page], content: bytes | None) -> Page:
    """Return a page of commits; an empty one if there is none.

    Raises:
        ValueError: It is not a page that this version writes.
    """
    try:
        return model.model_validate_json(content or b"{}")
    except ValidationError as error:
        raise ValueError(f"not a page that this version writes: {error.errors()[0]['msg']}") from error
