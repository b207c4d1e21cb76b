"""``report.html``: one self-contained page that opens from disk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.core.templates import templates
from cpuwheels.pipeline.report.drawing import MEMORY_HEIGHT, WIDTH, draw
from cpuwheels.pipeline.report.inputs import inputs_of
from cpuwheels.pipeline.report.timeline import largest, read_timeline, slowest
from cpuwheels.wheel.install_commands import file_command, pip_file_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.pipeline.recorded_build import BuildRecord, OperatorList
    from cpuwheels.pipeline.report.verdicts import Verdict

MARKS = {"passed": "✓", "passed in part": "◐", "failed": "✗", "open": "○"}
"""Shapes of the verdicts, which do not depend on colour."""

_ROWS = 15


@dataclass(frozen=True)
class PageContent:
    """What is on the page.

    Attributes:
        record: The build record.
        operators: What each library registers; None if the wheel was not installed.
        verdicts: Of the wheel's checks.
        torch: What the wheel requires of torch, such as ``==2.13.0+cpu``.
        files: Files next to the page that it links to: name and what it holds.
        logs: Folder of the logs, relative to the page; empty if it is not there.
    """

    record: BuildRecord
    operators: OperatorList | None
    verdicts: Sequence[Verdict]
    torch: str
    files: Sequence[tuple[str, str]]
    logs: str


def report_page(content: PageContent) -> str:
    """Return the page's text."""
    record = content.record
    labelled = "+" in content.torch
    return (
        templates("cpuwheels.pipeline")
        .get_template("report/report.html.j2")
        .render(
            content=content,
            record=record,
            wheel=record.wheel,
            verdicts=content.verdicts,
            marks=MARKS,
            inputs=inputs_of(record, record),
            fallbacks=record.alternates,
            commands=[
                ("uv", file_command(record.wheel.file, labelled=labelled)),
                ("pip", pip_file_command(record.wheel.file, labelled=labelled)),
            ],
            built=_moment(datetime.fromisoformat(record.built)),
            compiled=_compiled(record),
        )
    )


def _compiled(record: BuildRecord) -> dict[str, object] | None:
    """Return what the part about the compilation shows; None if nothing was compiled for this wheel or before it."""
    memory = record.memory
    if memory is None:
        return None
    timeline = read_timeline(record.files)
    bound = timeline.bound(memory.jobs, memory.room)
    return {
        "timeline": timeline,
        "drawing": draw(timeline, memory.cap),
        "memory": memory,
        "bound": bound,
        "began": _moment(datetime.fromtimestamp(timeline.began, UTC)),
        "cpu_seconds": sum(bar.cpu for bar in timeline.bars),
        "ratio": timeline.seconds / bound.seconds if bound.seconds else 1.0,
        "width": WIDTH,
        "memory_height": MEMORY_HEIGHT,
        "slowest": slowest(timeline.bars, _ROWS),
        "largest": largest(timeline.bars, _ROWS),
        "cached": sum(bar.cached for bar in timeline.bars),
        "again": [bar for bar in timeline.bars if bar.attempt > 1 or bar.status != 0],
    }


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
