"""Which jobs are tried once more, and where."""

from __future__ import annotations

import pytest

from cpuwheels.farm.slow import Patience, SlowJobs
from farms import jobs_for

PATIENCE = Patience(times=3, least=20, every=1)
"""A wheel is expected in 100 seconds, parity in 5."""


def test_how_long_a_job_is_waited_for() -> None:
    wheel, parity = jobs_for("a", level="smoke")
    assert PATIENCE.seconds(wheel) == 3 * wheel.seconds
    assert PATIENCE.seconds(parity) == 20
    assert Patience().seconds(parity) == 300


@pytest.mark.parametrize(
    ("began", "idle", "able", "asked"),
    [
        (0, {"two"}, {"one", "two"}, "two"),
        (0, {"three", "two"}, {"one", "two", "three"}, "three"),  # in the order of their names
        (1, {"two"}, {"one", "two"}, None),  # not yet
        (None, {"two"}, {"one", "two"}, None),  # it waits
        (0, set(), {"one", "two"}, None),
        (0, {"one"}, {"one", "two"}, None),  # where it runs already
        (0, {"two"}, {"one"}, None),  # what may not do it
    ],
)
def test_an_idle_machine_that_can_gets_a_slow_job(
    began: int | None, idle: set[str], able: set[str], asked: str | None
) -> None:
    (job,) = jobs_for("a")
    slow = SlowJobs(PATIENCE)
    if began is not None:
        slow.began(job.key, "one", began)
    found = slow.second_attempts({job.key: job}, idle, {job.key: able}, 3 * job.seconds + 0.5)
    assert found == ([] if asked is None else [(job, asked)])


def test_a_job_is_tried_twice_at_most_and_a_machine_gets_one() -> None:
    jobs = {job.key: job for job in jobs_for("a", "b")}
    able = {key: {"one", "two", "three"} for key in jobs}
    slow = SlowJobs(PATIENCE)
    for key in jobs:
        slow.began(key, "one", 0)
    ((first, _),) = slow.second_attempts(jobs, {"two"}, able, 1000)
    ((second, _),) = slow.second_attempts(jobs, {"two"}, able, 1000)
    assert {first.key, second.key} == set(jobs)
    assert slow.second_attempts(jobs, {"two", "three"}, able, 1000) == []


def test_a_job_that_begins_again_is_waited_for_anew() -> None:
    (job,) = jobs_for("a")
    slow = SlowJobs(PATIENCE)
    slow.began(job.key, "one", 0)
    slow.began(job.key, "two", 290)
    assert slow.second_attempts({job.key: job}, {"one"}, {job.key: {"one", "two"}}, 310) == []
