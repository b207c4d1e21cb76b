"""A commit's date is what somebody wrote: it neither ends a run, nor hides or outlasts other commits."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from cpuwheels.fetch.git import Git
from cpuwheels.source.history import dated_line, rising
from cpuwheels.source.repository import Repository
from cpuwheels.source.result import LATEST_EPOCH
from cpuwheels.source.revisions import resolve
from cpuwheels.wheel.canonical import zip_time
from hostile_git import commit_of_tree
from sample_source import dated_commit, git

if TYPE_CHECKING:
    from pathlib import Path

    from hostile_git import Get

DATES = {"0": 0, "4070908800": 4_070_908_800, "253402300800": LATEST_EPOCH, "9223372036854775807": LATEST_EPOCH}


@pytest.mark.parametrize(
    "date",
    [
        pytest.param("0", id="63-year-1970"),
        pytest.param("4070908800", id="64-year-2099"),
        pytest.param("253402300800", id="65-year-10000"),
        pytest.param("9223372036854775807", id="66-no-year"),
    ],
)
def test_a_commit_of_any_date_is_a_source_and_hides_no_other(date: str, get: Get, clone: Path) -> None:
    for day in (1, 2, 3):
        dated_commit(clone, f"2026-11-0{day}T12:00:00+00:00")
    odd = commit_of_tree(clone, [], date=f"{date} +0000")
    git(clone, "reset", "--quiet", "--hard", odd)
    last = [dated_commit(clone, f"2026-11-0{day}T12:00:00+00:00") for day in (4, 5)]
    source = get(odd, clone)
    assert source.commit == odd
    assert source.epoch == DATES[date]
    assert zip_time(source.epoch)[0] in range(1980, 2108)
    datetime.fromtimestamp(source.epoch, UTC)
    repository = Repository(Git(clone), str(clone))
    assert resolve(repository, "2026-11-04", branch="main").commit == last[0]
    assert resolve(repository, "2026-11-05", branch="main").commit == last[1]
    assert resolve(repository, "2026-11-02", branch="main").commit == git(clone, "rev-parse", "main~4")
    line = dated_line(repository, last[1])
    assert list(line)[-3:] == [odd, *last]
    assert list(line.values()) == sorted(line.values())
    assert line[odd] == line[git(clone, "rev-parse", f"{odd}^")]


def test_67_the_newest_is_not_of_tomorrow(clone: Path) -> None:
    odd = commit_of_tree(clone, [], date="4070908800 +0000")
    git(clone, "reset", "--quiet", "--hard", odd)
    assert dated_line(Repository(Git(clone), ""), odd)[odd] <= time.time()


def test_68_a_date_that_is_no_number(get: Get, clone: Path) -> None:
    odd = commit_of_tree(clone, [], date="yesterday +0000")
    git(clone, "update-ref", "refs/heads/odd", odd)
    assert get(odd, clone).epoch == 0
    assert dated_line(Repository(Git(clone), ""), odd)


@pytest.mark.parametrize(
    ("dates", "found"),
    [
        pytest.param([], [], id="69-none"),
        pytest.param([1, 2, 9, 9, 3, 4, 5], [1, 2, 2, 2, 3, 4, 5], id="70-two-ahead"),
        pytest.param([5, 6, 0, 7], [5, 6, 6, 7], id="71-one-behind"),
        pytest.param([9, 1, 2], [1, 1, 2], id="72-the-first-ahead"),
    ],
)
def test_what_does_not_fit_takes_the_date_before_it(dates: list[int], found: list[int]) -> None:
    assert rising(dates) == found
