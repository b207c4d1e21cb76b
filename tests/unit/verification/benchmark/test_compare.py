"""Choosing cases, and timing them in turn."""

from __future__ import annotations

import pytest

from cpuwheels.verification.benchmark.compare import CaseTimes, Comparison, LeftOut, calls_of, candidates, time_round
from sides import Side


def compare(one: Side, other: Side, *operators: str, most: int = 2) -> Comparison:
    found = Comparison(operators, most, lambda *_: None)
    found.first_round(one, other)
    return found


def test_the_largest_cases_that_both_have_come_first() -> None:
    one = Side({"a[1]": 1, "a[22]": 1, "a[333]": 1, "b[1]": 1, "a[only]": 1})
    other = Side({"a[1]": 1, "a[22]": 1, "a[333]": 1, "b[1]": 1})
    assert candidates(one, other, ()) == {("a", ""): ["a[333]", "a[22]", "a[1]"], ("b", ""): ["b[1]"]}
    assert list(candidates(one, other, ("b",))) == [("b", "")]
    assert [times.case for times in compare(one, other).times] == ["a[333]", "a[22]", "b[1]"]


def test_every_operator_of_a_case_is_timed() -> None:
    one, other = Side({"make+use[1]": 1}), Side({"make+use[1]": 1})
    assert [speed.operator for speed in compare(one, other).speeds()] == ["make", "use"]
    assert [what for what, _ in one.asked] == ["make of make+use[1]", "use of make+use[1]"]


def test_operators_come_slowest_first() -> None:
    one, other = Side({"a[1]": 1e-3, "b[1]": 2e-3}), Side({"a[1]": 2e-3, "b[1]": 1e-3})
    speeds = compare(one, other).speeds()
    assert [(speed.operator, speed.ratio.value) for speed in speeds] == [("b", 0.5), ("a", 2.0)]
    assert (speeds[0].seconds, speeds[0].against) == (pytest.approx(2e-3), pytest.approx(1e-3))


def test_an_operator_has_the_geometric_mean_of_its_cases() -> None:
    one, other = Side({"a[1]": 1e-3, "a[22]": 1e-3}), Side({"a[1]": 2e-3, "a[22]": 8e-3})
    (speed,) = compare(one, other).speeds()
    assert speed.ratio.value == pytest.approx(4)


def test_no_side_comes_earlier_on_the_whole() -> None:
    calls: list[str] = []
    one, other = Side({"a[1]": 1e-3}, "one", calls), Side({"a[1]": 1e-3}, "other", calls)
    time_round(CaseTimes("a[1]", "a"), one, other)
    places = {name: [place for place, each in enumerate(calls) if each == name] for name in ("one", "other")}
    assert len(places["one"]) == len(places["other"]) == 6
    assert sum(places["one"]) == sum(places["other"])


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 1000), (2e-7, 1000), (1e-5, 100), (4e-4, 3), (1.0, 1)])
def test_a_sample_has_as_many_calls_as_make_a_millisecond(seconds: float, count: int) -> None:
    assert calls_of(seconds) == count


def test_what_disturbs_some_samples_does_not_count() -> None:
    one, other = Side({"a[1]": 1e-3}), Side({"a[1]": 2e-3})
    delays = iter([0, 5, 0, 3, 9, 7])
    sample = one.sample
    one.sample = lambda count: sample(count) + next(delays)  # type: ignore[method-assign]
    times = CaseTimes("a[1]", "a")
    time_round(times, one, other)
    assert times.ratios == [2.0]


def test_both_sides_make_as_many_calls() -> None:
    one, other = Side({"a[1]": 2e-5}), Side({"a[1]": 1e-5})
    time_round(CaseTimes("a[1]", "a"), one, other)
    assert set(one.counts) == set(other.counts) == {100}


def test_both_sides_time_the_same_call_in_every_round() -> None:
    one, other = Side({"a[1]": 1e-3}), Side({"a[1]": 1e-3})
    found = compare(one, other)
    found.next_round(one, other)
    assert one.asked == other.asked == [("a of a[1]", None), ("a of a[1]", 3)]
    assert found.times[0].ratios == [1.0, 1.0]


def test_another_case_is_timed_where_one_cannot_be() -> None:
    why = "the call is refused, as it should be"
    one, other = Side({"a[22]": 1, "a[1]": 1}), Side({"a[22]": 1, "a[1]": 1}, fails={"a[22]": why})
    found = compare(one, other, most=1)
    assert [times.case for times in found.times] == ["a[1]"]
    assert found.left_out == [LeftOut("a", "a[22]", why)]
    assert one.open == "", "the side that could have timed it does not wait"


def test_a_function_whose_cases_cannot_be_timed_is_not_tried_on_and_on() -> None:
    sizes = {f"a{'+b' * odd}[{'1' * size}]": 1.0 for size in range(1, 9) for odd in (0, 1)}
    one, other = Side(sizes), Side(sizes, fails={case: "the call is refused" for case in sizes if case[1] == "["})
    found = compare(one, other, "a", most=5)
    assert [times.case for times in found.times] == [f"a+b[{'1' * size}]" for size in (8, 7, 6, 5, 4)]
    assert len(found.left_out) == 2


def test_a_case_that_fails_in_a_later_round_is_left_out_altogether() -> None:
    one, other = Side({"a[1]": 1, "b[1]": 1}), Side({"a[1]": 1, "b[1]": 1})
    found = compare(one, other)
    found.next_round(Side({"a[1]": 1, "b[1]": 1}, fails={"a[1]": "it died"}), other)
    assert [times.case for times in found.times] == ["b[1]"]
    assert found.left_out == [LeftOut("a", "a[1]", "it died")]


def test_operators_that_cannot_be_compared_are_named() -> None:
    one, other = Side({"a[1]": 1, "b[1]": 1}), Side({"a[1]": 1})
    one.operators.append("c")
    other.operators.append("c")
    assert compare(one, other).left_out == [
        LeftOut("b", "", "only one of the wheels has it"),
        LeftOut("c", "", "it has no case"),
    ]
    assert compare(one, other, "a").left_out == []
