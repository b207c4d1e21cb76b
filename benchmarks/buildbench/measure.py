"""Running a command and measuring it: time, CPU time of all its processes, and the memory they hold together.

The same for both sides. The peak of memory is a sum of proportional set sizes (memory.py): pages that processes share,
such as a precompiled header, count once. What happens between two measurements is not seen.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from buildbench.group import counted
from buildbench.memory import held_below
from buildbench.pace import Pace
from cpuwheels.core.concurrency import in_background
from cpuwheels.core.process import run

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LOOK_SECONDS = 0.25
"""Seconds between two measurements of the memory."""

LOOK_SHARE = 0.04
"""The part of one CPU's time that measuring may take; with many processes it is done less often."""

_NOT_BUSY = {"idle", "iowait", "guest", "guest_nice"}


@dataclass(frozen=True)
class Usage:
    """What a command took.

    Attributes:
        wall: Seconds.
        cpu: Seconds of user and system time of the command and of every process it waited for.
        peak: Bytes; the largest proportional set size of all processes together.
        group_peak: Bytes that the kernel counted at most, file cache included; None without a control group.
        others_cpu: Seconds of CPU time that the machine spent meanwhile on anything else.
        pace: CPU seconds of a small fixed task meanwhile, the mean.
    """

    wall: float
    cpu: float
    peak: int
    group_peak: int | None
    others_cpu: float
    pace: float

    def then(self, other: Usage) -> Usage:
        """Return what this command and the next one took together."""
        peaks = [peak for peak in (self.group_peak, other.group_peak) if peak is not None]
        return Usage(
            wall=self.wall + other.wall,
            cpu=self.cpu + other.cpu,
            peak=max(self.peak, other.peak),
            group_peak=max(peaks, default=None),
            others_cpu=self.others_cpu + other.others_cpu,
            pace=(self.wall * self.pace + other.wall * other.pace) / (self.wall + other.wall),
        )


def measure(argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str]) -> Usage:
    """Run a command to its end and return what it took; nothing else may be started meanwhile.

    Raises:
        CommandError: It failed.
        StoreError: The log cannot be written.
    """
    sampler, pace = Sampler(os.getpid()), Pace()
    all_before, own_before = _machine_cpu(), time.process_time()
    began = time.monotonic()
    with counted() as group, in_background(sampler.watch), in_background(pace.watch):
        done = run([*(group.prefix if group else ()), *argv], log=log, env=env)
        wall = time.monotonic() - began
        peak = group.peak() if group else None
    cpu = done.cpu_seconds
    others = _machine_cpu() - all_before - cpu - (time.process_time() - own_before)
    return Usage(wall=wall, cpu=cpu, peak=sampler.peak, group_peak=peak, others_cpu=max(0.0, others), pace=pace.mean())


class Sampler:
    """Measures the memory of a process's children.

    Args:
        parent: The process's id; it does not count itself.
    """

    def __init__(self, parent: int) -> None:
        self.peak = 0
        self._parent = parent

    def watch(self, stop: threading.Event) -> None:
        """Measure again and again until the event is set."""
        pause = 0.0
        while not stop.wait(pause):
            began = time.thread_time()
            self.peak = max(self.peak, held_below(self._parent, self.peak))
            pause = max(LOOK_SECONDS, (time.thread_time() - began) / LOOK_SHARE)


def _machine_cpu() -> float:
    """Return the seconds that all CPUs of the machine were not idle; Linux counts a guest's as its host's user time."""
    times = psutil.cpu_times()._asdict()
    return float(sum(value for name, value in times.items() if name not in _NOT_BUSY))
