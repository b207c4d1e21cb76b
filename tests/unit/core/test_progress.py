"""How far a stage is, in words."""

from __future__ import annotations

import pytest

from cpuwheels.core.progress import Progress, clock, rough_clock


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (4.24, "4.2 s"),
        (59.94, "59.9 s"),
        (59.96, "1:00"),
        (60, "1:00"),
        (187.9, "3:07"),
        (3599.9, "59:59"),
        (3600, "1:00:00"),
        (3723, "1:02:03"),
        (90000, "25:00:00"),
    ],
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(3, 10), "30%  3/10 files  elapsed 5.0 s"),
        (Progress(3, 10, eta=61), "30%  about 1:01 to go  3/10 files  elapsed 5.0 s"),
        (Progress(3, 10, memory=3 << 30, detail="a.cpp"), "30%  3/10 files  elapsed 5.0 s  memory 3 GiB  a.cpp"),
        (Progress(1 << 20, 45 << 20, unit="bytes"), "2%  1 MiB of 45 MiB  elapsed 5.0 s"),
        (Progress(3, 10, part=0.29, eta=59.2), "29%  about 59 s to go  3/10 files  elapsed 5.0 s"),
        (Progress(9, 10, part=0.9999, eta=59.6), "99%  about 1:00 to go  9/10 files  elapsed 5.0 s"),
        (Progress(0, 10, part=0), "0%  0/10 files  elapsed 5.0 s"),
        (Progress(1 << 20, 0, unit="bytes"), "1 MiB  elapsed 5.0 s"),
        (Progress(0, 0), "elapsed 5.0 s"),
        (
            Progress(3, 10, memory=1 << 30, cap=2 << 30, running=("a 3 s",)),
            "30%  3/10 files  elapsed 5.0 s  memory 1 GiB",
        ),
    ],
)
def test_progress_on_one_line(progress: Progress, text: str) -> None:
    assert progress.text(5) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (4.6, "5 s"), (59.6, "1:00"), (3723.4, "1:02:03")])
def test_a_rough_clock_has_whole_seconds(seconds: float, text: str) -> None:
    assert rough_clock(seconds) == text
