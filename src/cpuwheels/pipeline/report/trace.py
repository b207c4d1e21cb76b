"""``trace.json``: the build as a Chrome trace, for chrome://tracing, Perfetto and speedscope."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpuwheels.pipeline.report.timeline import Timeline

_MICRO = 1_000_000


def chrome_trace(timeline: Timeline, title: str) -> str:
    """Return the trace's text: one complete event per job, and the sum of peaks as a counter.

    The format is Google's Trace Event Format: times in microseconds, one thread per CPU slot.
    """
    events: list[dict[str, Any]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": title}}]
    events += [
        {"ph": "M", "pid": 1, "tid": lane, "name": "thread_name", "args": {"name": f"CPU slot {lane}"}}
        for lane in range(timeline.lanes)
    ]
    events += [
        {
            "ph": "X",
            "pid": 1,
            "tid": bar.lane,
            "name": bar.name,
            "cat": bar.group,
            "ts": round(bar.start * _MICRO),
            "dur": round((bar.end - bar.start) * _MICRO),
            "args": {
                "output": bar.output,
                "cpu_seconds": round(bar.cpu, 3),
                "peak_bytes": bar.bytes,
                "attempt": bar.attempt,
                "status": bar.status,
                "cached": bar.cached,
            },
        }
        for bar in timeline.bars
    ]
    events += [
        {"ph": "C", "pid": 1, "name": "memory", "ts": round(moment * _MICRO), "args": {"bytes": level}}
        for moment, level in timeline.memory()
    ]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}) + "\n"
