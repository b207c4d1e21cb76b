"""The commits between two ends and their dates, as the repository has them: order is by history, whatever dates say."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.errors import BisectError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.source.repository import Repository


@dataclass(frozen=True)
class Commit:
    """A commit of the range that is searched.

    Attributes:
        name: Its hash.
        parents: The hashes of its parents; those outside the range do not count.
    """

    name: str
    parents: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """A range of commits.

    Attributes:
        base: The commit that has to be good: the good end, or where its branch left the bad one's.
        commits: What may be the first bad commit, parents before children; the last is the bad end.
        merges: How many of them are merges, whose other parents are left out if only first parents are followed.
    """

    base: str
    commits: tuple[Commit, ...]
    merges: int


def history_between(repository: Repository, good: str, bad: str, *, first_parent: bool) -> History:
    """Return the commits that are reached from the bad end and not from the good one.

    Args:
        repository: Where they are.
        good: Full hash.
        bad: Full hash.
        first_parent: Follow only the first parent of a merge: what was merged counts as one change.

    Raises:
        BisectError: They are the same, have nothing in common, or the good one comes after the bad one.
    """
    if good == bad:
        raise BisectError(
            f"good and bad are the same commit {good}",
            where="--good, --bad",
            next_step="give two commits, one before and one after the change",
        )
    common = repository.git.ask("merge-base", good, bad)
    if common.returncode != 0:
        raise BisectError(
            f"{good} and {bad} have no common history",
            where=repository.name,
            output=common.output,
            next_step="give commits of one history; in a shallow clone: git fetch --unshallow",
        )
    base = common.output.split()[0]
    if base == bad:
        raise BisectError(
            f"the good commit {good} comes after the bad one {bad}",
            where="--good, --bad",
            next_step="give them the other way round; to find what fixed something, let the command fail where it "
            "works",
        )
    options = ["--first-parent"] if first_parent else []
    about = f"between {good} and {bad}"
    rows = _rev_list(repository, about, "--topo-order", "--parents", *options, f"{good}..{bad}")
    commits = tuple(Commit(name, tuple(parents[:1] if first_parent else parents)) for name, *parents in rows)
    return History(base, commits, sum(len(row) > 2 for row in rows))  # noqa: PLR2004  (a commit and one parent)


def dated_line(repository: Repository, tip: str, now: float | None = None) -> dict[str, int]:
    """Return the commits of a branch's first parents, the oldest first, with dates that never fall.

    A commit's date is whatever its author's clock or hand wrote: one of 2099 must not count as the newest for good, and
    one of 1970 not hide all before it. So a date counts only if it fits the history.

    Args:
        repository: Where they are.
        tip: Full hash of the newest.
        now: The present, in seconds since 1970; this machine's clock if not given. Nothing is later.

    Raises:
        BisectError: git does not list them.
    """
    rows = _rev_list(repository, f"up to {tip}", "--first-parent", "--timestamp", tip)
    latest = int(time.time() if now is None else now)
    written = [min(int(row[0]), latest) if row[0].isdecimal() else 0 for row in rows]
    return dict(zip((row[1] for row in rows), rising(written), strict=True))


def _rev_list(repository: Repository, about: str, *options: str) -> list[list[str]]:
    """Return the rows of ``git rev-list``, the oldest first, each divided into its words."""
    listed = repository.git.ask("rev-list", "--reverse", *options)
    if listed.returncode != 0 or not listed.output.strip():
        raise BisectError(
            f"git does not list the commits {about}",
            where=repository.name,
            output=listed.output,
            next_step="run git log there",
        )
    return [line.split() for line in listed.output.splitlines()]


def rising(dates: Sequence[int]) -> list[int]:
    """Return dates that never fall: those of the longest series that does not fall stay, the others are as before them.

    Args:
        dates: In the order of history, the oldest first.
    """
    lowest: list[int] = []  # of each length, the lowest date with which such a series can end
    at: list[int] = []  # and its place
    before = [-1] * len(dates)
    for place, date in enumerate(dates):
        length = bisect_right(lowest, date)
        before[place] = at[length - 1] if length else -1
        lowest[length : length + 1], at[length : length + 1] = [date], [place]
    kept = set()
    place = at[-1] if at else -1
    while place >= 0:
        kept.add(place)
        place = before[place]
    found: list[int] = []
    date = dates[min(kept)] if kept else 0
    for place, written in enumerate(dates):
        date = written if place in kept else date
        found.append(date)
    return found
