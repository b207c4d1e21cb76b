"""The build report: what ran when, how much memory it used, and how close it was to the best possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.kernels.report.page import report_page
from cpuwheels.kernels.report.timeline import read_timeline
from cpuwheels.kernels.report.trace import chrome_trace

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.kernels.result import Kernels

PAGE, TRACE = "report.html", "trace.json"


def write_report(folder: Path, kernels: Kernels, title: str) -> None:
    """Write ``report.html`` and ``trace.json`` of the build that compiled some kernels.

    Raises:
        StoreError: The folder cannot be written.
    """
    timeline = read_timeline(kernels.jobs)
    note = "" if kernels.built else "these kernels were in the store; this is the build that compiled them"
    page = report_page(timeline, kernels.memory, title=title, cpus=kernels.memory.jobs, note=note)
    with storage_errors(folder):
        write_atomic(folder / PAGE, page)
        write_atomic(folder / TRACE, chrome_trace(timeline, title))
