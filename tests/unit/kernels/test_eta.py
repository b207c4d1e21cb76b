from __future__ import annotations

import pytest

from cpuwheels.kernels.eta import Estimate, Remaining
from cpuwheels.kernels.memory.costs import Cost

A, B, C = (f"CMakeFiles/_C.dir/{name}.cpp.o" for name in "abc")
HEADER = "CMakeFiles/_C.dir/cmake_pch.hxx.gch"
ROOM = 100


def remaining(costs: dict[str, float], cpus: int = 2) -> Remaining:
    return Remaining({output: Cost(seconds, 1) for output, seconds in costs.items()}, cpus, ROOM)


def told(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


def test_before_anything_is_done_the_expected_work_counts():
    assert remaining({A: 100, B: 20, C: 80}).estimate({}) == Estimate(0, 100)


def test_running_jobs_count_for_what_they_have_run():
    left = remaining({A: 100, B: 20, C: 80})
    assert left.estimate({A: 30, C: 30}) == Estimate(pytest.approx(60 / 200), pytest.approx(70))
    assert told(left.estimate({A: 90, C: 60})).part == pytest.approx(150 / 200)


def test_an_overdue_job_slows_it_down_and_is_never_done():
    left = remaining({A: 100, B: 100}, cpus=1)
    late = told(left.estimate({A: 1000}))
    assert late.part == pytest.approx(0.95 / 2)
    assert late.seconds > 800


def test_the_speed_is_that_of_what_was_done_from_the_first_file_on():
    left = remaining({A: 100, B: 20, C: 80})
    left.finish(A, 200)
    assert told(left.estimate({})).seconds == pytest.approx(80 * 2, rel=0.05)


def test_the_last_files_count_most():
    costs = {f"CMakeFiles/_C.dir/{number}.o": Cost(10, 1) for number in range(100)}
    left = Remaining(costs, 1, ROOM)
    for number, output in enumerate(list(costs)[:60]):
        left.finish(output, 10 if number < 40 else 30)
    assert told(left.estimate({})).seconds == pytest.approx(40 * 30, rel=0.1)


def test_the_part_never_gets_less():
    left = remaining({A: 100, B: 100}, cpus=1)
    before = told(left.estimate({A: 90})).part
    assert told(left.estimate({A: 10})).part == before


def test_at_the_end_the_longest_job_counts_not_the_sum():
    left = remaining({A: 100, B: 20, C: 20}, cpus=4)
    assert told(left.estimate({})).seconds == 100


def test_files_wait_for_the_header_of_their_target_and_links_for_all():
    costs = {HEADER: Cost(30, 1), A: Cost(40, 1), "CMakeFiles/x.dir/x.o": Cost(60, 1), "_C.abi3.so": Cost(5, 1)}
    left = Remaining(costs, 4, ROOM)
    assert told(left.estimate({})).seconds == 75
    left.finish(HEADER, 30)
    assert told(left.estimate({"CMakeFiles/x.dir/x.o": 30})).seconds == pytest.approx(45)


def test_jobs_that_do_not_fit_into_the_memory_wait():
    costs = {A: Cost(10, 60), B: Cost(10, 60), C: Cost(10, 200)}
    assert told(Remaining(costs, 4, ROOM).estimate({})).seconds == 30


def test_when_all_files_of_a_target_were_cached_the_others_are_expected_to_be():
    costs = {f"CMakeFiles/{target}.dir/{number}.o": Cost(10, 1) for target in "ab" for number in range(50)}
    left = Remaining(costs, 1, ROOM)
    for number in range(10):
        left.finish(f"CMakeFiles/a.dir/{number}.o", 0.1, cached=True)
        left.finish(f"CMakeFiles/b.dir/{number}.o", 10)
    estimate = told(left.estimate({}))
    assert estimate.seconds == pytest.approx(40 * 10, rel=0.1)
    assert estimate.part == pytest.approx(0.2)


def test_cached_files_tell_nothing_of_the_speed():
    costs = {f"CMakeFiles/{target}.dir/{number}.o": Cost(10, 1) for target in "ab" for number in range(50)}
    parts = []
    for cached in (0, 50):
        left = Remaining(costs, 1, ROOM)
        for number in range(cached):
            left.finish(f"CMakeFiles/b.dir/{number}.o", 0.1, cached=True)
        left.finish("CMakeFiles/a.dir/0.o", 20)
        parts.append(told(left.estimate({"CMakeFiles/a.dir/1.o": 5})).part)
    assert parts[1] - parts[0] == pytest.approx(0.5, abs=1e-9)


def test_a_file_that_runs_on_was_not_cached():
    costs = {f"CMakeFiles/a.dir/{number}.o": Cost(10, 1) for number in range(11)}
    left = Remaining(costs, 1, ROOM)
    for number in range(10):
        left.finish(f"CMakeFiles/a.dir/{number}.o", 0.1, cached=True)
    assert told(left.estimate({"CMakeFiles/a.dir/10.o": 0.1})).seconds < 1
    assert told(left.estimate({"CMakeFiles/a.dir/10.o": 2})).seconds == pytest.approx(8)


def test_what_is_not_known_or_told_twice_is_passed_over():
    left = remaining({A: 10, B: 10}, cpus=1)
    left.finish("other.o", 1)
    left.finish(A, 10)
    left.finish(A, 1000)
    assert left.estimate({A: 3, "other.o": 3}) == Estimate(0.5, pytest.approx(10))


def test_without_files_there_is_no_answer():
    assert Remaining({}, 2, ROOM).estimate({}) is None
