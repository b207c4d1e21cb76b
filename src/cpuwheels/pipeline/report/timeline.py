"""Jobs over time: memgate's ledger as data that can be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.kernels.memory.costs import job_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpuwheels.kernels.memory.ledger import JobRecord

_PROBE = "cmTC_"
"""How CMake names what it compiles only to check the compiler (its module CMakeDetermineCompilerABI)."""


@dataclass(frozen=True)
class Bar:
    """One run of a compiler or linker.

    Attributes:
        output: The file made, as the build names it.
        group: The CMake target it belongs to, or ``link``.
        name: The source file within its target, or what is linked.
        lane: CPU slot, from 0.
        start: Seconds after the first job's start.
        end: The same for its end.
        cpu: CPU time in seconds.
        bytes: Peak memory.
        attempt: From 1.
        status: Exit status.
        cached: Whether the compiler cache had the result.
    """

    output: str
    group: str
    name: str
    lane: int
    start: float
    end: float
    cpu: float
    bytes: int
    attempt: int
    status: int
    cached: bool = False


@dataclass(frozen=True)
class Bound:
    """The least time in which the jobs could have run, whatever their order.

    Attributes:
        work: All their time divided by the number of CPUs.
        longest: The time of the longest one.
        area: The sum of time multiplied by memory, divided by the memory there was.
    """

    work: float
    longest: float
    area: float

    @property
    def seconds(self) -> float:
        """The largest of the three."""
        return max(self.work, self.longest, self.area)


@dataclass(frozen=True)
class Timeline:
    """Every job of a build.

    Attributes:
        bars: In the order of their start.
        began: The first start, seconds since 1970.
        seconds: From the first start to the last end.
        lanes: CPU slots that were used.
    """

    bars: tuple[Bar, ...]
    began: float
    seconds: float
    lanes: int

    def bound(self, cpus: int, room: int) -> Bound:
        """Return the lower bound of the makespan: list scheduling with one more resource than CPUs.

        Args:
            cpus: Jobs at once.
            room: Bytes for all jobs together.
        """
        walls = [bar.end - bar.start for bar in self.bars]
        area = sum(wall * bar.bytes for wall, bar in zip(walls, self.bars, strict=True))
        return Bound(sum(walls) / cpus, max(walls, default=0.0), area / room)

    def memory(self) -> list[tuple[float, int]]:
        """Return the moments at which jobs start or end, with the sum of the peaks of those that run from then on."""
        changes = sorted([(bar.start, bar.bytes) for bar in self.bars] + [(bar.end, -bar.bytes) for bar in self.bars])
        level = 0
        levels: list[tuple[float, int]] = []
        for moment, change in changes:
            level += change
            if levels and levels[-1][0] == moment:
                levels.pop()
            levels.append((moment, level))
        return levels


def read_timeline(records: Iterable[JobRecord]) -> Timeline:
    """Return the jobs of a ledger; CMake's own checks of the compiler are left out."""
    kept = [record for record in records if _PROBE not in record.output]
    began = min((record.start for record in kept), default=0.0)
    bars = sorted((_bar(record, began) for record in kept), key=lambda bar: (bar.start, bar.lane))
    return Timeline(
        bars=tuple(bars),
        began=began,
        seconds=max((bar.end for bar in bars), default=0.0),
        lanes=max((bar.lane for bar in bars), default=-1) + 1,
    )


def largest(bars: Sequence[Bar], count: int) -> list[Bar]:
    """Return the bars with the largest peaks."""
    return sorted(bars, key=lambda bar: -bar.bytes)[:count]


def slowest(bars: Sequence[Bar], count: int) -> list[Bar]:
    """Return the bars with the most CPU time."""
    return sorted(bars, key=lambda bar: -bar.cpu)[:count]


def _bar(record: JobRecord, began: float) -> Bar:
    group = job_class(record.output)
    return Bar(
        output=record.output,
        group=group.rsplit("/", 1)[-1].removesuffix(".dir"),
        name=record.output.removeprefix(f"{group}/").removesuffix(".o"),
        lane=record.lane,
        start=record.start - began,
        end=record.start + record.wall - began,
        cpu=record.cpu_seconds,
        bytes=record.bytes,
        attempt=record.attempt,
        status=record.status,
        cached=record.cached,
    )
