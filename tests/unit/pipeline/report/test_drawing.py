"""The drawings: every job in its place, and a memory axis that fits the data."""

from __future__ import annotations

import itertools
import re

import pytest

from cpuwheels.pipeline.report.drawing import MEMORY_HEIGHT, WIDTH, Drawing, draw
from cpuwheels.pipeline.report.timeline import read_timeline
from ledger_records import RECORDS, job


def highest(drawing: Drawing) -> float:
    """Return the highest point of all areas, in pixels from the bottom."""
    points = [float(y) for area in drawing.areas for _, y in re.findall(r"([\d.]+),([\d.]+)", area.path)]
    return MEMORY_HEIGHT - min(points)


def test_every_job_is_drawn_in_its_place() -> None:
    drawing = draw(read_timeline(RECORDS), cap=1000)
    assert len(drawing.bars) == len(RECORDS)
    for bar in drawing.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= WIDTH + 0.01
        assert bar.y + bar.height <= drawing.lanes_height
    for lane in {bar.y for bar in drawing.bars}:
        row = sorted((bar.x, bar.x + bar.width) for bar in drawing.bars if bar.y == lane)
        assert all(end <= start + 0.01 for (_, end), (start, _) in itertools.pairwise(row))
    assert drawing.bars[0].tip == "_C: csrc/cpu/a.cpp\n10.0 s\nCPU 10.0 s\n250 B"


def test_a_cap_that_is_near_is_drawn() -> None:
    # 550 were held at most.
    drawing = draw(read_timeline(RECORDS), cap=700)
    assert drawing.cap is not None
    assert highest(drawing) / (MEMORY_HEIGHT - drawing.cap) == pytest.approx(550 / 700, abs=0.01)


@pytest.mark.parametrize("cap", [1000, 1 << 40])
def test_a_cap_that_is_not_near_leaves_the_axis_to_the_data(cap: int) -> None:
    drawing = draw(read_timeline(RECORDS), cap=cap)
    assert drawing.cap is None
    assert highest(drawing) == pytest.approx(MEMORY_HEIGHT / 1.08, abs=0.1)
    assert [tick.label for tick in drawing.bytes] == ["128 B", "256 B", "384 B", "512 B"]


def test_failures_and_cached_results_are_marked() -> None:
    records = [
        job("CMakeFiles/_C.dir/bad.cpp.o", 12, 1, status=137, attempt=2),
        job("CMakeFiles/_C.dir/had.cpp.o", 13, 1, note="direct_cache_hit"),
    ]
    bad, had = draw(read_timeline(records), cap=1000).bars
    assert (bad.failed, bad.tip.splitlines()[-2:]) == (True, ["attempt 2", "exit status 137"])
    assert (had.failed, had.tip.splitlines()[-1]) == (False, "from the compiler cache")


def test_targets_differ_by_pattern_too_and_many_share_the_last() -> None:
    records = [job(f"CMakeFiles/t{number}.dir/a.cpp.o", number, 1) for number in range(20)]
    drawing = draw(read_timeline(records), cap=1000)
    assert [group.name for group in drawing.groups][-1] == "other targets"
    assert len(drawing.areas) == len({group.pattern for group in drawing.groups}) == 8
    assert sum(bar.group == 7 for bar in drawing.bars) == 13


def test_without_any_job_there_is_nothing_to_draw() -> None:
    drawing = draw(read_timeline([]), cap=1000)
    assert (drawing.bars, drawing.areas, drawing.groups) == ((), (), ())
