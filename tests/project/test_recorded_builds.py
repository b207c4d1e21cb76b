"""The estimates of real builds, each as memgate recorded it, with the costs that the project expected then.

There are three real records of cold builds. On the first machine nothing else ran, on the second one a program that
computed all the time. Next to the third build a load grew until jobs took four times as long, which nobody can foresee:
only the last part of this record, from where the load grew little, is held to what is asked of a steady load. Other
machines, or a load from some moment on, are replays: the CPU seconds of the first record on CPUs of another speed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from recorded_builds import continued, forecasts, recorded, replayed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recorded_builds import Forecast, Made

STEP_AT = 320.0
"""Seconds after which a load begins or ends: half of the build is done by then on an idle machine."""


def idle(_lane: int, _now: float) -> float:
    return 1.0


def one_half_taken(lane: int, _now: float) -> float:
    return 0.5 if lane else 1.0


def half_taken(_lane: int, _now: float) -> float:
    return 0.5


def three_quarters_taken(_lane: int, _now: float) -> float:
    return 0.25


def taken_later(_lane: int, now: float) -> float:
    return 1.0 if now < STEP_AT else 0.5


def taken_at_first(_lane: int, now: float) -> float:
    return 0.5 if now < STEP_AT else 1.0


def after(part: float, found: Sequence[Forecast]) -> list[Forecast]:
    """Return the estimates from some part of the work on."""
    return [forecast for forecast in found if forecast.estimate.part >= part]


def worst(found: Sequence[Forecast]) -> float:
    """Return the largest error."""
    return max(abs(forecast.error) for forecast in found)


BUILDS: dict[str, tuple[int, Callable[[], Sequence[Made]]]] = {
    "idle": (2, lambda: recorded("cold")),
    "idle, continued": (2, lambda: continued(recorded("cold"), 250)),
    "idle, replayed": (2, lambda: replayed(recorded("cold"), 2, idle)),
    "idle, 8 CPUs": (8, lambda: replayed(recorded("cold"), 8, idle)),
    "idle, 64 CPUs": (64, lambda: replayed(recorded("cold"), 64, idle)),
    "one of two CPUs half taken": (2, lambda: replayed(recorded("cold"), 2, one_half_taken)),
    "half loaded": (2, lambda: recorded("half-loaded")),
    "half loaded, continued": (2, lambda: continued(recorded("half-loaded"), 500)),
    "half taken": (2, lambda: replayed(recorded("cold"), 2, half_taken)),
    "half taken, 8 CPUs": (8, lambda: replayed(recorded("cold"), 8, half_taken)),
    "three quarters taken": (2, lambda: replayed(recorded("cold"), 2, three_quarters_taken)),
    "loaded, another vLLM": (2, lambda: continued(recorded("rising-load"), 800)),
}


@pytest.mark.parametrize(("cpus", "build"), BUILDS.values(), ids=BUILDS)
def test_from_a_tenth_of_the_work_on_the_end_is_known_to_a_quarter(
    cpus: int, build: Callable[[], Sequence[Made]]
) -> None:
    told = after(0.1, forecasts(build(), cpus))
    assert len(told) > 10
    assert worst(told) <= 0.25


@pytest.mark.parametrize(
    "name", ["cold", "half-loaded", "rising-load", "partly-cached-busy", "mostly-cached", "cached"]
)
def test_the_part_only_grows(name: str) -> None:
    parts = [forecast.estimate.part for forecast in forecasts(recorded(name))]
    assert all(before <= later for before, later in pairwise(parts))
    assert parts[0] < 0.01
    assert 0.98 < parts[-1] <= 1


def test_it_does_not_stand_still_while_long_files_compile() -> None:
    parts = [forecast.estimate.part for forecast in forecasts(recorded("cold"), moments=70)]
    assert all(later - before > 0.001 for before, later in pairwise(parts))


@pytest.mark.parametrize("load", [taken_later, taken_at_first])
def test_a_load_that_begins_or_ends_is_noticed(load: Callable[[int, float], float]) -> None:
    told = forecasts(replayed(recorded("cold"), 2, load))
    assert worst([forecast for forecast in told if 0.5 * STEP_AT < forecast.now < STEP_AT]) > 0.25  # not foreseen
    assert worst([forecast for forecast in told if forecast.now > 1.25 * STEP_AT]) <= 0.25


def test_while_a_load_grows_it_follows() -> None:
    told = forecasts(recorded("rising-load"))
    assert worst([forecast for forecast in told if forecast.now > forecast.total / 2]) <= 0.25
    assert worst(after(0.75, told)) <= 0.15


@pytest.mark.parametrize(
    ("name", "from_a_tenth", "from_a_half"),
    [("partly-cached-busy", 0.6, 0.3), ("mostly-cached", 0.6, 0.3), ("cached", 1.6, 0.75)],
)
def test_cached_files_make_it_much_shorter(name: str, from_a_tenth: float, from_a_half: float) -> None:
    """Which files are cached only shows as they end. All of them are taken to be compiled before the first one has."""
    told = forecasts(recorded(name))
    assert told[0].estimate.seconds > 700
    assert worst(after(0.1, told)) <= from_a_tenth
    assert worst(after(0.5, told)) <= from_a_half
