"""The drawings of a timeline: files on CPU slots, and their memory, as data for SVG.

Targets differ by colour and by pattern. The memory axis ends just above the data; the cap is drawn only if it is near.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.progress import clock
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from cpuwheels.pipeline.report.timeline import Bar, Timeline

WIDTH = 1160
"""Of the drawings, in pixels of a 1:1 view."""

MEMORY_HEIGHT = 220
_LANES_HEIGHT = 420
_MOST_LANE, _LEAST_LANE = 26, 3
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#999933")
"""Paul Tol's bright scheme and two of his light one, which colour-blind readers can also distinguish."""

_PATTERNS = (
    "",
    "M0,8 L8,0",
    "M0,0 L8,8",
    "M0,4 L8,4",
    "M4,0 L4,8",
    "M0,8 L8,0 M0,0 L8,8",
    "M0,4 L8,4 M4,0 L4,8",
    "M3,3 h2 v2 h-2 Z",
)
"""Paths in a tile of 8 by 8, one for each colour."""

_OTHER = "other targets"
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)
_NEAR = 1.5
"""A cap up to this many times the largest sum is drawn; above it, the data would be a sliver."""

_MOST_TICKS = 5
"""On the memory axis."""


@dataclass(frozen=True)
class Rect:
    """A job on its CPU slot, in pixels."""

    x: float
    y: float
    width: float
    height: float
    group: int
    tip: str
    failed: bool


@dataclass(frozen=True)
class Area:
    """The memory of one group over time, as an SVG path."""

    group: int
    path: str


@dataclass(frozen=True)
class Tick:
    """A line of a grid: its place in pixels, and its label."""

    position: float
    label: str


@dataclass(frozen=True)
class Group:
    """A CMake target, or all of those without a colour of their own."""

    name: str
    colour: str
    pattern: str


@dataclass(frozen=True)
class Drawing:
    """Everything that is drawn.

    Attributes:
        groups: In the order of their CPU time.
        bars: One for each job.
        lanes_height: Of the first drawing, in pixels.
        areas: Stacked, the first at the bottom.
        seconds: Grid of both.
        bytes: Grid of the second.
        cap: Where the cap is in the second, in pixels from its top; None if it is far above the data.
    """

    groups: tuple[Group, ...]
    bars: tuple[Rect, ...]
    lanes_height: float
    areas: tuple[Area, ...]
    seconds: tuple[Tick, ...]
    bytes: tuple[Tick, ...]
    cap: float | None


def draw(timeline: Timeline, cap: int) -> Drawing:
    """Return the drawings of a timeline.

    Args:
        timeline: The jobs.
        cap: Bytes that the build was allowed.
    """
    names = _names(timeline.bars)
    number = {name: place for place, name in enumerate(names)}
    lane = max(_LEAST_LANE, min(_MOST_LANE, _LANES_HEIGHT / max(1, timeline.lanes)))
    scale = WIDTH / max(timeline.seconds, 1e-9)
    highest = max((level for _, level in timeline.memory()), default=0) or 1
    near = cap <= _NEAR * highest
    high = MEMORY_HEIGHT / (1.08 * max(highest, cap if near else 0))
    return Drawing(
        groups=tuple(map(Group, names, _COLOURS, _PATTERNS)),
        bars=tuple(_rect(bar, scale, lane, number) for bar in timeline.bars),
        lanes_height=lane * timeline.lanes,
        areas=tuple(_areas(timeline, number, scale, high)),
        seconds=tuple(_seconds(timeline.seconds, scale)),
        bytes=tuple(_bytes(high)),
        cap=MEMORY_HEIGHT - cap * high if near else None,
    )


def _names(bars: tuple[Bar, ...]) -> list[str]:
    """Return the groups with the most CPU time, and one for all others, if there are others."""
    work: Counter[str] = Counter()
    for bar in bars:
        work[bar.group] += round(bar.cpu * 1000)
    names = [group for group, _ in work.most_common(len(_COLOURS) - 1)]
    return [*names, _OTHER] if len(work) > len(names) else names


def _rect(bar: Bar, scale: float, lane: float, number: dict[str, int]) -> Rect:
    wall, cpu = clock(bar.end - bar.start), clock(bar.cpu)
    words = [f"{bar.group}: {bar.name}", wall, f"CPU {cpu}", format_size(bar.bytes)]
    if bar.attempt > 1:
        words.append(f"attempt {bar.attempt}")
    if bar.cached:
        words.append("from the compiler cache")
    if bar.status != 0:
        words.append(f"exit status {bar.status}")
    return Rect(
        x=round(bar.start * scale, 2),
        y=round(bar.lane * lane, 2),
        width=max(0.3, round((bar.end - bar.start) * scale, 2)),
        height=round(lane - min(1.0, lane / 5), 2),
        group=_number(bar, number),
        tip="\n".join(words),
        failed=bar.status != 0,
    )


def _number(bar: Bar, number: dict[str, int]) -> int:
    return number[bar.group] if bar.group in number else number[_OTHER]


def _areas(timeline: Timeline, number: dict[str, int], scale: float, high: float) -> list[Area]:
    """Return one stepped area per group, each on top of those before it."""
    changes: list[tuple[float, int, int]] = []
    for bar in timeline.bars:
        group = _number(bar, number)
        changes += [(bar.start, group, bar.bytes), (bar.end, group, -bar.bytes)]
    changes.sort(key=lambda change: (change[0], change[2]))  # what ends makes room for what starts
    levels = [0] * len(number)
    outlines: list[list[tuple[float, float, float]]] = [[] for _ in number]
    for moment, group, change in changes:
        levels[group] += change
        base = 0
        for outline, level in zip(outlines, levels, strict=True):
            outline.append((moment * scale, base * high, (base + level) * high))
            base += level
    return [Area(group, _outline(steps)) for group, steps in enumerate(outlines)]


def _outline(steps: list[tuple[float, float, float]]) -> str:
    """Return an SVG path around steps of (x, lower, upper), with y downwards from the drawing's top."""
    upper: list[str] = []
    lower: list[str] = []
    for (x, low, high), following in zip(steps, [*steps[1:], steps[-1]], strict=True):
        for side, value in ((upper, high), (lower, low)):
            side += [f"{x:.1f},{MEMORY_HEIGHT - value:.1f}", f"{following[0]:.1f},{MEMORY_HEIGHT - value:.1f}"]
    return f"M{' L'.join(upper)} L{' L'.join(reversed(lower))}Z" if upper else ""


def _seconds(seconds: float, scale: float) -> list[Tick]:
    step = next((step for step in _STEPS if seconds / step <= 12), _STEPS[-1])  # noqa: PLR2004
    return [Tick(moment * scale, clock(moment)) for moment in range(0, int(seconds) + 1, step)]


def _bytes(high: float) -> list[Tick]:
    """Return the grid of the memory axis: steps of a power of two."""
    top = MEMORY_HEIGHT / high
    step = 1
    while top / step > _MOST_TICKS:
        step *= 2
    return [Tick(MEMORY_HEIGHT - level * high, format_size(level)) for level in range(step, int(top) + 1, step)]
