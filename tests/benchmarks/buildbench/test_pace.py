"""Timing a fixed task while something else runs."""

from __future__ import annotations

import statistics
import threading
from typing import TYPE_CHECKING

import pytest
from buildbench import pace
from buildbench.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_it_is_timed_once_even_if_there_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[float] = iter((1.0, 1.25))
    monkeypatch.setattr(pace.time, "thread_time", lambda: next(clock))
    stop = threading.Event()
    stop.set()
    timed = Pace()
    timed.watch(stop)
    assert timed.mean() == pytest.approx(0.25)


def test_the_mean_of_all_times_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    times = [0.0, 0.1, 5.0, 5.3]

    def thread_time() -> float:
        if len(times) == 1:
            stop.set()
        return times.pop(0)

    monkeypatch.setattr(pace.time, "thread_time", thread_time)
    timed = Pace()
    timed.watch(stop, pause=0.0)
    assert timed.mean() == pytest.approx(0.2)


def test_nothing_was_timed() -> None:
    with pytest.raises(statistics.StatisticsError):
        Pace().mean()


def test_the_task_takes_time_of_its_own_thread() -> None:
    stop = threading.Event()
    stop.set()
    timed = Pace()
    timed.watch(stop)
    assert 0.001 < timed.mean() < 0.5
