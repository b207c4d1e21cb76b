"""The targets at their limits, one step past them, and where nothing was measured."""

from __future__ import annotations

import pytest
from buildbench.results import UNCAPPED, Sizes
from buildbench.targets import verdicts

from bench_results import GIB, results, run, whole


def test_every_limit_is_within_reach() -> None:
    found = verdicts(whole())
    assert [verdict.met for verdict in found] == [True] * 11
    values = [0.4, 0.1, 10, 3, 1, 0.5, 0.3, 1, 0.75, 1.1, 33_000_000]
    assert [round(verdict.value or 0, 3) for verdict in found] == values


@pytest.mark.parametrize(
    ("changed", "value", "what"),
    [
        ("ours", run(2410, 1205), "cold"),
        ("edit", run(241, 125), "edited"),
        ("python", run(12, 10.1), "Python-only"),
        ("noop", run(2, 3.1), "nothing changed"),
        ("open", run(2352, 1205), "cold: CPU seconds, of the same without a sandbox"),
        ("edit_open", run(239, 124.4), "edited: wall, more than without a sandbox"),
        ("python_open", run(11, 9.4), "Python-only change: wall, more than without a sandbox"),
        ("caps/4G", run(2400, 1325, cap=4 * GIB, peak=4 * GIB + 1), "cap 4G: never passed"),
        ("caps/8G", run(2400, 1211, cap=8 * GIB, gate_peak=8 * GIB + 1), "cap 8G: never passed"),
        ("caps/4G", run(2400, 1326.5, cap=4 * GIB, peak=4 * GIB), "cap 4 GiB: wall"),
    ],
)
def test_one_step_past_a_limit_is_a_miss(changed: str, value: object, what: str) -> None:
    missed = [verdict.what for verdict in verdicts(whole(**{changed: value})) if verdict.met is False]
    assert len(missed) == 1
    assert what in missed[0]


def test_a_wheel_that_is_too_large_is_a_miss() -> None:
    large = whole().model_copy(update={"sizes": Sizes(wheel=33_000_001)})
    assert [verdict.what for verdict in verdicts(large) if verdict.met is False] == ["wheel"]


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert {verdict.met for verdict in verdicts(results())} == {None}
    only_ours = verdicts(results(ours=run()))
    assert {verdict.met for verdict in only_ours} == {None}


def test_capped_runs_are_held_against_their_own_uncapped_one() -> None:
    found = whole().with_run(UNCAPPED, run(2400, 1100))
    wall = next(verdict for verdict in verdicts(found) if "wall of the kernels" in verdict.what)
    assert wall.value == pytest.approx(1320 / 1095)
    assert wall.met is False


def test_no_cap_of_4_gib_no_verdict_on_its_time() -> None:
    found = verdicts(results(ours=run(), **{"caps/6G": run(cap=6 * GIB)}))
    assert next(verdict.met for verdict in found if "cap 4 GiB: wall" in verdict.what) is None
    assert next(verdict.met for verdict in found if "cap 6G: never" in verdict.what) is True
