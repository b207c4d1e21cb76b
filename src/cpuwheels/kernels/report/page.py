"""``report.html``: one self-contained page that opens from disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.core.console import clock
from cpuwheels.core.templates import templates
from cpuwheels.core.units import format_size
from cpuwheels.kernels.report.timeline import largest, slowest

if TYPE_CHECKING:
    from cpuwheels.kernels.memory.admission import MemoryUse
    from cpuwheels.kernels.report.timeline import Bar, Timeline

WIDTH = 1160
"""Of the drawings, in pixels of a 1:1 view."""

_MEMORY_HEIGHT = 220
_LANES_HEIGHT = 420
_MOST_LANE, _LEAST_LANE = 26, 3
_ROWS = 15
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#999933")
"""Paul Tol's bright scheme and two of his light one, which colour-blind readers can also distinguish."""

_OTHER = "other targets"
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)


@dataclass(frozen=True)
class _Rect:
    x: float
    y: float
    width: float
    height: float
    colour: str
    tip: str
    failed: bool


@dataclass(frozen=True)
class _Area:
    group: str
    colour: str
    path: str


@dataclass(frozen=True)
class _Tick:
    position: float
    label: str


def report_page(timeline: Timeline, memory: MemoryUse, *, title: str, cpus: int, note: str = "") -> str:
    """Return the page's text.

    Args:
        timeline: The jobs.
        memory: The cap and what was used of it.
        title: Names the build.
        cpus: Jobs at once.
        note: Printed beneath the title.
    """
    bound = timeline.bound(cpus, memory.room)
    colours = _colours(timeline.bars)
    lane = max(_LEAST_LANE, min(_MOST_LANE, _LANES_HEIGHT / max(1, timeline.lanes)))
    scale = WIDTH / max(timeline.seconds, 1e-9)
    top = 1.08 * max([memory.cap, *(level for _, level in timeline.memory())])
    return (
        templates("cpuwheels.kernels.report")
        .get_template("report.html.j2")
        .render(
            title=title,
            note=note,
            timeline=timeline,
            memory=memory,
            bound=bound,
            cpus=cpus,
            width=WIDTH,
            began=datetime.fromtimestamp(timeline.began, UTC).strftime("%Y-%m-%d %H:%M UTC"),
            cpu_seconds=sum(bar.cpu for bar in timeline.bars),
            ratio=timeline.seconds / bound.seconds if bound.seconds else 1.0,
            legend=[(group, colour) for group, colour in colours.items()],
            bars=[_rect(bar, scale, lane, colours) for bar in timeline.bars],
            lanes_height=lane * timeline.lanes,
            memory_height=_MEMORY_HEIGHT,
            areas=_areas(timeline, colours, scale, _MEMORY_HEIGHT / top),
            cap_line=_MEMORY_HEIGHT - memory.cap * _MEMORY_HEIGHT / top,
            room_line=_MEMORY_HEIGHT - memory.room * _MEMORY_HEIGHT / top,
            ticks=_ticks(timeline.seconds, scale),
            slowest=slowest(timeline.bars, _ROWS),
            largest=largest(timeline.bars, _ROWS),
            cached=sum(bar.cached for bar in timeline.bars),
            again=[bar for bar in timeline.bars if bar.attempt > 1 or bar.status != 0],
        )
    )


def _colours(bars: tuple[Bar, ...]) -> dict[str, str]:
    """Give the groups with the most CPU time a colour each, and one to all others."""
    work: Counter[str] = Counter()
    for bar in bars:
        work[bar.group] += round(bar.cpu * 1000)
    named = [group for group, _ in work.most_common(len(_COLOURS) - 1)]
    colours = dict(zip(named, _COLOURS, strict=False))
    if len(work) > len(named):
        colours[_OTHER] = _COLOURS[-1]
    return colours


def _rect(bar: Bar, scale: float, lane: float, colours: dict[str, str]) -> _Rect:
    wall, cpu = clock(bar.end - bar.start), clock(bar.cpu)
    words = [f"{bar.group}: {bar.name}", wall, f"CPU {cpu}", format_size(bar.bytes)]
    if bar.attempt > 1:
        words.append(f"attempt {bar.attempt}")
    if bar.cached:
        words.append("from the compiler cache")
    if bar.status != 0:
        words.append(f"exit status {bar.status}")
    return _Rect(
        x=round(bar.start * scale, 2),
        y=round(bar.lane * lane, 2),
        width=max(0.3, round((bar.end - bar.start) * scale, 2)),
        height=round(lane - min(1.0, lane / 5), 2),
        colour=colours.get(bar.group) or colours[_OTHER],
        tip="\n".join(words),
        failed=bar.status != 0,
    )


def _areas(timeline: Timeline, colours: dict[str, str], scale: float, high: float) -> list[_Area]:
    """Return one stepped area per group, each on top of those before it."""
    changes: list[tuple[float, str, int]] = []
    for bar in timeline.bars:
        group = bar.group if bar.group in colours else _OTHER
        changes += [(bar.start, group, bar.bytes), (bar.end, group, -bar.bytes)]
    changes.sort(key=lambda change: (change[0], change[2]))  # what ends makes room for what starts
    levels = dict.fromkeys(colours, 0)
    outlines: dict[str, list[tuple[float, float, float]]] = {group: [] for group in colours}
    for moment, group, change in changes:
        levels[group] += change
        base = 0
        for name, level in levels.items():
            outlines[name].append((moment * scale, base * high, (base + level) * high))
            base += level
    return [_Area(group, colours[group], _outline(steps)) for group, steps in outlines.items()]


def _outline(steps: list[tuple[float, float, float]]) -> str:
    """Return an SVG path around steps of (x, lower, upper), with y downwards from the drawing's top."""
    upper: list[str] = []
    lower: list[str] = []
    for (x, low, high), following in zip(steps, [*steps[1:], steps[-1]], strict=True):
        for side, value in ((upper, high), (lower, low)):
            side += [f"{x:.1f},{_MEMORY_HEIGHT - value:.1f}", f"{following[0]:.1f},{_MEMORY_HEIGHT - value:.1f}"]
    return f"M{' L'.join(upper)} L{' L'.join(reversed(lower))}Z" if upper else ""


def _ticks(seconds: float, scale: float) -> list[_Tick]:
    step = next((step for step in _STEPS if seconds / step <= 12), _STEPS[-1])  # noqa: PLR2004
    return [_Tick(moment * scale, clock(moment)) for moment in range(0, int(seconds) + 1, step)]
