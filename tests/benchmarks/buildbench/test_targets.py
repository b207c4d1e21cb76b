"""The targets at their limits, one step past them, and where nothing was measured."""

from __future__ import annotations

import pytest
from buildbench.results import UNCAPPED, Sizes
from buildbench.targets import verdicts

from bench_results import GIB, results, run, whole


def test_every_limit_is_within_reach() -> None:
    found = verdicts(whole())
    assert [verdict.met for verdict in found] == [True] * 18
    values = [0.25, 0.25, 15, 0.25, 4, 1, 1.5, 25, 180, 60, 1, 0.5, 0.3, 1, 0.75, 1.1, 15_000_000, 24_000_000]
    assert [round(verdict.value or 0, 3) for verdict in found] == values


@pytest.mark.parametrize(
    ("changed", "value", "what"),
    [
        ("ours", run(1510, 775), "cold: CPU seconds of all"),
        ("ours", run(1500, 776), "cold: wall"),
        ("edit_unsteered", run(50, 59.9), "edited: wall, of unsteered"),
        ("python", run(12, 4.1, stages={"install check": 1.5}), "Python-only"),
        ("python", run(12, 4.0, stages={"install check": 1.6}), "install check"),
        ("noop", run(2, 1.1), "nothing changed"),
        ("parity/smoke", run(2, 25.1), "parity, smoke level, without"),
        ("parity/full", run(2, 180.1), "parity, full"),
        ("parity/full and emulated", run(2, 240.1), "parity, smoke level of the emulated"),
        ("open", run(1470, 770), "cold: CPU seconds, of the same without a sandbox"),
        ("edit_open", run(23, 14.4), "edited: wall, more than without a sandbox"),
        ("python_open", run(11, 3.4), "Python-only change: wall, more than without a sandbox"),
        ("caps/4G", run(1500, 852, cap=4 * GIB, peak=4 * GIB + 1), "cap 4G: never passed"),
        ("caps/8G", run(1500, 776, cap=8 * GIB, gate_peak=8 * GIB + 1), "cap 8G: never passed"),
        ("caps/4G", run(1500, 852.5, cap=4 * GIB, peak=4 * GIB), "cap 4 GiB: wall"),
    ],
)
def test_one_step_past_a_limit_is_a_miss(changed: str, value: object, what: str) -> None:
    missed = [verdict.what for verdict in verdicts(whole(**{changed: value})) if verdict.met is False]
    assert len(missed) == 1
    assert what in missed[0]


def test_an_edit_that_takes_longer_misses_all_that_is_asked_of_it() -> None:
    missed = [verdict.what for verdict in verdicts(whole(edit=run(24, 15.01))) if verdict.met is False]
    limits = ("to the wheel", "of unsteered", "more than without a sandbox")
    assert missed == [f"one C++ file edited: wall, {limit}" for limit in limits]


@pytest.mark.parametrize(
    ("sizes", "missed"),
    [
        (Sizes(wheel=15_000_001, ours={"_C": 24_000_000}), "wheel"),
        (Sizes(wheel=15_000_000, ours={"_C": 20_000_000, "shared": 4_000_001}), "native code, installed"),
    ],
)
def test_a_wheel_that_is_too_large_is_a_miss(sizes: Sizes, missed: str) -> None:
    large = whole().model_copy(update={"sizes": sizes})
    assert [verdict.what for verdict in verdicts(large) if verdict.met is False] == [missed]


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert {verdict.met for verdict in verdicts(results())} == {None}
    only_ours = verdicts(results(ours=run()))
    assert {verdict.met for verdict in only_ours} == {None}


def test_capped_runs_are_held_against_their_own_uncapped_one() -> None:
    found = whole().with_run(UNCAPPED, run(1500, 700))
    wall = next(verdict for verdict in verdicts(found) if "wall of the kernels" in verdict.what)
    assert wall.value == pytest.approx(847 / 695)
    assert wall.met is False


def test_no_cap_of_4_gib_no_verdict_on_its_time() -> None:
    found = verdicts(results(ours=run(), **{"caps/6G": run(cap=6 * GIB)}))
    assert next(verdict.met for verdict in found if "cap 4 GiB: wall" in verdict.what) is None
    assert next(verdict.met for verdict in found if "cap 6G: never" in verdict.what) is True
