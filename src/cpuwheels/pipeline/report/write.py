"""Writing the build report: from the files in a wheel's folder, and again whenever one of them is new."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.recorded_build import OPERATORS, read_operators, read_record
from cpuwheels.pipeline.report.page import PageContent, report_page
from cpuwheels.pipeline.report.timeline import read_timeline
from cpuwheels.pipeline.report.trace import chrome_trace
from cpuwheels.pipeline.report.verdicts import verdicts
from cpuwheels.wheel.wheel_metadata import read_metadata, required_torch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from cpuwheels.kernels.memory.ledger import JobRecord

PAGE, TRACE = "report.html", "trace.json"

_FILES = {
    RECORD: "build record: everything on this page, for programs",
    OPERATORS: "every operator with its schema",
    TRACE: "the compilation for chrome://tracing, Perfetto or speedscope",
}


def write_trace(folder: Path, jobs: Iterable[JobRecord], title: str) -> None:
    """Write ``trace.json`` of the build that compiled some kernels.

    Args:
        folder: Where.
        jobs: Of that build.
        title: Names the build.

    Raises:
        StoreError: The folder cannot be written.
    """
    with storage_errors(folder):
        write_atomic(folder / TRACE, chrome_trace(read_timeline(jobs), title))


def refresh_report(folder: Path) -> None:
    """Write ``report.html`` from the build record and the reports next to it, in one rename.

    Two commands that end at once, such as parity and serving, write one after the other, each with what both have
    left there.

    Raises:
        WheelError: There is no build record, or it is of another version.
        UnusableWheelError: The wheel is not there.
        StoreError: The folder cannot be written.
    """
    with storage_errors(folder), _locked(folder):
        files = {name for name in _FILES if (folder / name).is_file()}
        write_atomic(folder / PAGE, report_page(_content(folder, files)))


def published_report(folder: Path, files: Collection[str]) -> str:
    """Return ``report.html`` as it is published: it leads only to files that are published with it, and to no logs.

    Args:
        folder: Of the wheel.
        files: Names of what is published.

    Raises:
        WheelError: There is no build record, or it is of another version.
        UnusableWheelError: The wheel is not there.
    """
    content = _content(folder, files)
    shown = [one if one.link in files else replace(one, link="") for one in content.verdicts]
    return report_page(replace(content, verdicts=shown, logs=""))


def _content(folder: Path, files: Collection[str]) -> PageContent:
    record = read_record(folder)
    requires = read_metadata(folder / record.wheel.file).get_all("Requires-Dist", [])
    return PageContent(
        record=record,
        operators=read_operators(folder),
        verdicts=verdicts(record, folder),
        torch=required_torch(requires, record.wheel.file),
        files=[(name, what) for name, what in _FILES.items() if name in files],
        logs=record.logs,
    )


def refresh_if_built(wheel: Path) -> None:
    """Write the report next to a wheel again, if there is one and it is this wheel's.

    Args:
        wheel: Any wheel; one that was not built here has no report.

    Raises:
        StoreError: The folder cannot be written.
    """
    folder = wheel.parent
    if (folder / PAGE).is_file() and (folder / RECORD).is_file() and read_record(folder).wheel.file == wheel.name:
        refresh_report(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder itself, so that no file of a lock lies between the results."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
