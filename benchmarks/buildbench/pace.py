"""How fast the machine is while a command runs: a small fixed task, timed again and again.

A virtual machine shares its processor with others, and sees nothing of them: the same work takes it more CPU seconds at
one hour than at the next. Two runs are comparable as far as this task took the same during both.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

PAUSE = 5.0
"""Seconds between two times; the task takes some ten milliseconds of one CPU."""

_NUMBERS = 50_000


class Pace:
    """Times the task while a command runs."""

    def __init__(self) -> None:
        draw = random.Random(0)  # noqa: S311  (the same numbers each time, not secret ones)
        self._numbers = [draw.random() for _ in range(_NUMBERS)]
        self._seconds: list[float] = []

    def watch(self, stop: threading.Event, pause: float = PAUSE) -> None:
        """Time it now, and after each pause until the event is set."""
        self._time()
        while not stop.wait(pause):
            self._time()

    def mean(self) -> float:
        """Return the mean CPU seconds of the task.

        Raises:
            statistics.StatisticsError: It was not timed yet.
        """
        return statistics.fmean(self._seconds)

    def _time(self) -> None:
        sorted(self._numbers)  # what ran before has emptied the caches
        began = time.thread_time()
        sorted(self._numbers)
        self._seconds.append(time.thread_time() - began)
