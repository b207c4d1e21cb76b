"""Commits of a week and when they came: of a clone, or a made week.

How many commits vLLM's main gets is from the notes of its releases and from their dates on PyPI: 0.23.0 to 0.26.0 have
408, 571, 558 and 411 commits ("This release features … commits",
https://github.com/vllm-project/vllm/releases/tag/v0.23.0 and so on, as Dependabot quotes them in
IntelLabs/DeepMath#22, PrimeIntellect-ai/OpenRLHF#5, mudler/LocalAI#10811 and PrimeIntellect-ai/toploc#40). 0.22.0 was
uploaded on 2026-05-29 and 0.26.0 on 2026-07-25. So these are 1,948 commits in 57 days, 239 a week.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cpuwheels.core.digests import text_digest
from cpuwheels.core.errors import UsageError
from cpuwheels.farm.sources import kernel_classes
from cpuwheels.source.clone import local_repository
from cpuwheels.source.history import dated_line

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store

A_WEEK = 240
"""Commits of a made week; see above."""

MADE = "a made week"

WEEKDAYS = (1.0, 1.0, 1.0, 1.0, 1.0, 0.3, 0.3)
"""How many commits each day gets, Monday first. Assumed."""

HOURS = (6, 6, 8, 8, 8, 7, 6, 6, 7, 7, 5, 4, 3, 4, 6, 8, 9, 10, 10, 9, 8, 8, 7, 7)
"""How many commits each hour (UTC) gets: office hours of Asia, Europe and America, most of America's. Assumed."""

_DAY, _HOUR = 86_400, 3_600
_HASH = 40
_BEGAN = datetime(2026, 11, 2, tzinfo=UTC)
"""A Monday."""


@dataclass(frozen=True)
class Arrival:
    """A commit.

    Attributes:
        commit: Its hash.
        at: Seconds since the week began.
        kernels: Class of its kernels.
    """

    commit: str
    at: float
    kernels: str


@dataclass(frozen=True)
class Week:
    """Commits in the order in which they came.

    Attributes:
        name: For people.
        began: UTC.
        days: How long it is.
        commits: The commits.
        before: Class of the kernels that the commit before them has; empty if there is none.
    """

    name: str
    began: str
    days: float
    commits: tuple[Arrival, ...]
    before: str = ""

    @property
    def changes(self) -> int:
        """How many commits have kernels that none before them had."""
        return len({arrival.kernels for arrival in self.commits} - {self.before})


def made_week(commits: int = A_WEEK, part: float = 0.05, seed: int = 1, days: int = 7) -> Week:
    """Return a made week: so many commits, each by itself at a moment that `WEEKDAYS` and `HOURS` weigh.

    Real commits come more together than that where several are merged at once.

    Args:
        commits: How many.
        part: The part of them that changes kernels, at random places.
        seed: Of the generator.
        days: How long it is.

    Raises:
        UsageError: There are no commits, or the part is none.
    """
    if commits < 1 or not 0 <= part <= 1:
        raise UsageError(
            f"{commits} commits of which {part:g} change kernels are no week",
            where="--made, --kernels",
            next_step="give at least one commit, and a part from 0 to 1",
        )
    draw = random.Random(seed)  # noqa: S311  (a simulation)
    hours = [(day, hour) for day in range(days) for hour in range(len(HOURS))]
    weights = [WEEKDAYS[day % len(WEEKDAYS)] * HOURS[hour] for day, hour in hours]
    drawn = draw.choices(hours, weights, k=commits)
    moments = sorted(day * _DAY + hour * _HOUR + draw.random() * _HOUR for day, hour in drawn)
    changing = set(draw.sample(range(commits), round(commits * part)))
    found, number = [], 0
    for place, at in enumerate(moments):
        number += place in changing
        found.append(Arrival(text_digest(f"{seed} {place}")[:_HASH], at, f"made {number}"))
    return Week(MADE, _BEGAN.isoformat(), days, tuple(found), before="made 0")


def week_of(folder: Path, store: Store, branch: str = "main", until: str | None = None, days: float = 7) -> Week:
    """Return the commits of a clone's branch: first parents, dates of their committers, predicted classes of kernels.

    Dates that do not fit the history are taken as `cpuwheels.source.history.dated_line` takes them.

    Args:
        folder: The clone.
        store: What compilers read in earlier builds, for the prediction.
        branch: The branch.
        until: Commits after this moment are left out; the newest commit's if not given.
        days: So many days before that.

    Raises:
        SourceError: There is no such clone or branch.
        BisectError: git does not list the commits, or what they hold.
        UsageError: The moment is none, or there are no commits in these days.
    """
    repository = local_repository(folder.expanduser().resolve())
    dates = dated_line(repository, repository.commit(branch))
    end = _moment(until) if until else max(dates.values())
    began = end - days * _DAY
    names = [name for name, date in dates.items() if began < date <= end]
    if not names:
        raise UsageError(
            f"{branch} has no commits in the {days:g} days before {_iso(end)}",
            where=folder,
            next_step=f"the newest one is of {_iso(max(dates.values()))}: give another --until, or more --days",
        )
    earlier = [name for name, date in dates.items() if date <= began]
    classes = kernel_classes([*earlier[-1:], *names], repository, store)
    found = tuple(Arrival(name, dates[name] - began, classes[name]) for name in names)
    before = classes[earlier[-1]] if earlier else ""
    return Week(f"{len(names)} commits of {branch}", _iso(began), days, found, before)


def _moment(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no date", where="--until", next_step="give one such as 2026-11-02 or 2026-11-02T12:00:00"
        ) from error
    at = found if found.tzinfo else found.replace(tzinfo=UTC)
    return at.timestamp() + (_DAY if len(text) == len("2026-11-02") else 0)  # a day counts as a whole


def _iso(seconds: float) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
