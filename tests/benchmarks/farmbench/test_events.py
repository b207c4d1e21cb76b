"""The simulated farm: cases that can be checked by hand, and what holds for any jobs."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

import pytest
from farmbench.bound import CHAIN, LATER, WORK, Bound, lower_bound
from farmbench.events import Released, Run, Taken, run_farm
from hypothesis import given
from hypothesis import strategies as st

from cpuwheels.core.errors import FarmError
from cpuwheels.farm.graph import longest_first
from cpuwheels.farm.job import Job, Needs
from cpuwheels.farm.machine import Machine

ALL = ("build:x86", "build:arm")


def job(key: str, seconds: float, *after: str, can: str = "build:x86", memory: int = 1) -> Job:
    needs = Needs(can=can, memory=memory)
    return Job(key=key, kind="wheel", target="x86", source=key, after=after, needs=needs, seconds=seconds)


def machine(name: str, *can: str, memory: int = 8) -> Machine:
    return Machine(name=name, cpus=2, memory=memory, can=frozenset(can or ALL), features=frozenset())


def machines(count: int) -> list[Machine]:
    return [machine(f"m{number}") for number in range(count)]


def as_estimated(one: Job, _has: Collection[str]) -> Taken:
    return Taken(one.seconds)


def shown(runs: list[Run]) -> list[tuple[str, int, float, float]]:
    return [(run.job.key, run.machine, run.began, run.ended) for run in runs]


def at_once(*jobs: Job) -> list[Released]:
    return [Released(one) for one in longest_first(jobs)]


def test_one_machine_does_two_jobs_one_after_the_other_and_the_longer_first() -> None:
    runs = run_farm(at_once(job("a", 2), job("b", 3)), machines(1), as_estimated)
    assert shown(runs) == [("b", 0, 0, 3), ("a", 0, 3, 5)]


def test_two_machines_do_them_at_once() -> None:
    runs = run_farm(at_once(job("a", 2), job("b", 3)), machines(2), as_estimated)
    assert shown(runs) == [("b", 0, 0, 3), ("a", 1, 0, 2)]


def test_what_the_longest_way_begins_with_goes_first_and_the_rest_of_the_way_waits_for_it() -> None:
    jobs = at_once(job("single", 4), job("kernels", 3), job("wheel", 2, "kernels"))
    assert shown(run_farm(jobs, machines(1), as_estimated)) == [
        ("kernels", 0, 0, 3), ("single", 0, 3, 7), ("wheel", 0, 7, 9),
    ]  # fmt: skip


def test_a_job_does_not_begin_before_it_is_known_nor_is_one_that_runs_ended_for_it() -> None:
    first, second = longest_first([job("short", 4), job("long", 9)])
    runs = run_farm([Released(first, 1.0), Released(second, 2.0)], machines(1), as_estimated)
    assert shown(runs) == [("short", 0, 1, 5), ("long", 0, 5, 14)]


def test_the_same_key_is_done_once_and_what_is_stored_not_at_all() -> None:
    jobs = at_once(job("kernels", 3), job("a", 1, "kernels"), job("kernels", 3), job("b", 1, "kernels"))
    assert [run.job.key for run in run_farm(jobs, machines(1), as_estimated)] == ["kernels", "a", "b"]
    assert [run.job.key for run in run_farm(jobs, machines(1), as_estimated, {"kernels"})] == ["a", "b"]


def test_a_job_that_only_one_machine_can_do_waits_for_it() -> None:
    able = [machine("any", "build:x86"), machine("both")]
    jobs = at_once(job("a", 3, can="build:arm"), job("b", 2, can="build:arm"), job("c", 1))
    assert shown(run_farm(jobs, able, as_estimated)) == [("a", 1, 0, 3), ("c", 0, 0, 1), ("b", 1, 3, 5)]


def test_memory_counts_as_well() -> None:
    small = [machine("small", memory=2), machine("large", memory=4)]
    runs = run_farm(at_once(job("a", 1, memory=3), job("b", 1, memory=3)), small, as_estimated)
    assert {run.machine for run in runs} == {1}


def test_a_job_that_no_machine_can_do_is_an_error() -> None:
    with pytest.raises(FarmError, match="no machine can do wheel x86 a"):
        run_farm(at_once(job("a", 1, can="test:macos")), machines(3), as_estimated)


def test_a_job_after_one_that_nobody_does_is_an_error() -> None:
    with pytest.raises(ValueError, match="comes after kernels, which nobody does"):
        run_farm(at_once(job("a", 1, "kernels")), machines(1), as_estimated)


def test_of_free_machines_the_one_that_has_what_the_job_uses_does_it() -> None:
    def cost(one: Job, has: Collection[str]) -> Taken:
        return Taken(1.0 if "x" in has else 2.0, leaves=frozenset("x" if one.key == "a" else ""))

    first, second, third = (job(name, 1) for name in "abc")
    released = [Released(first, 0), Released(second, 0), Released(third, 5)]
    runs = {run.job.key: run for run in run_farm(list(reversed(released)), machines(2), cost)}
    assert runs["a"].machine == runs["c"].machine == 1
    assert runs["c"].taken.seconds == 1.0


def bound(count: int, *jobs: Job) -> Bound:
    return lower_bound(jobs, machines(count), {one.key: one.seconds for one in jobs})


def test_the_bound_is_the_work_the_longest_chain_or_what_cannot_begin_earlier() -> None:
    assert bound(2, job("a", 3), job("b", 3), job("c", 4)) == Bound(5.0, WORK)
    assert bound(2, job("a", 3), job("b", 3, "a"), job("c", 4)) == Bound(6.0, CHAIN)
    # Nothing but a may begin in the first 3 seconds: 3 + (4 + 4 + 4) / 2.
    assert bound(2, job("a", 3), *(job(name, 4, "a") for name in "bcd")) == Bound(9.0, LATER)


def test_the_bound_knows_which_machines_can_do_what() -> None:
    able = [machine("any", "build:x86"), machine("both")]
    jobs = [job("a", 3, can="build:arm"), job("b", 4, can="build:arm"), job("c", 1)]
    assert lower_bound(jobs, able, {one.key: one.seconds for one in jobs}) == Bound(7.0, WORK)
    assert lower_bound(jobs, machines(2), {one.key: one.seconds for one in jobs}) == Bound(4.0, CHAIN)


@st.composite
def graphs(draw: st.DrawFn) -> list[Released]:
    """Jobs of any shape: each may come after some of those before it."""
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, 14))):
        before = draw(st.lists(st.sampled_from(jobs), unique_by=lambda one: one.key, max_size=3)) if jobs else []
        seconds, can = draw(st.integers(1, 50)), draw(st.sampled_from(ALL))
        jobs.append(job(f"j{number}", seconds, *(one.key for one in before), can=can))
    late = draw(st.booleans())
    return [Released(one, draw(st.integers(0, 60)) if late else 0.0) for one in longest_first(jobs)]


@st.composite
def any_machines(draw: st.DrawFn) -> list[Machine]:
    """Some of them can build for one target alone; at least one can for both."""
    kinds = draw(st.lists(st.sampled_from([ALL, ALL[:1], ALL[1:]]), max_size=4))
    return [machine(f"m{number}", *can) for number, can in enumerate([*kinds, ALL])]


@given(released=graphs(), able=any_machines())
def test_whatever_the_jobs_and_machines(released: list[Released], able: list[Machine]) -> None:
    runs = run_farm(released, able, as_estimated)
    by_key = {run.job.key: run for run in runs}
    assert len(runs) == len(by_key) == len(released)
    for one in released:
        run = by_key[one.job.key]
        assert run.began >= one.at
        assert all(run.began >= by_key[key].ended for key in one.job.after)
        assert not able[run.machine].lacks(one.job.needs)
    for number in range(len(able)):
        own = sorted((run.began, run.ended) for run in runs if run.machine == number)
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(own))


@given(released=graphs(), able=any_machines())
def test_no_farm_is_faster_than_the_bound_nor_idle_while_it_could_work(
    released: list[Released], able: list[Machine]
) -> None:
    jobs = [one.job for one in released]
    runs = run_farm([Released(one) for one in jobs], able, as_estimated)
    makespan = max(run.ended for run in runs)
    assert makespan >= lower_bound(jobs, able, {one.key: one.seconds for one in jobs}).seconds * (1 - 1e-9)
    ended = {run.job.key: run.ended for run in runs}
    for run in runs:  # a machine that can do it has something to do from when it was ready until it began
        ready = max((ended[key] for key in run.job.after), default=0.0)
        for number, one in enumerate(able):
            if not one.lacks(run.job.needs):
                busy = sum(
                    min(other.ended, run.began) - max(other.began, ready)
                    for other in runs
                    if other.machine == number and other.ended > ready and other.began < run.began
                )
                assert busy == pytest.approx(run.began - ready)
