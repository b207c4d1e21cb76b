"""The files next to a wheel that are published with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.config.options import LEAST_RATIO
from cpuwheels.core.errors import PublishError, UsageError, WheelError
from cpuwheels.index.entry import Speed
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.report.write import PAGE, published_report
from cpuwheels.verification.benchmark.result import SPEED
from cpuwheels.verification.parity.reports import HTML, JSON
from cpuwheels.verification.parity.results import read_parity
from cpuwheels.verification.serving.result import SERVE, Served

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.index.entry import TestResult

NAMES = (RECORD, PAGE, "operators.json", JSON, HTML, SPEED, SERVE)


@dataclass(frozen=True)
class Reports:
    """The reports of one wheel.

    Attributes:
        files: Content by name.
        parity: The result of its parity.
        served: The result of serving it.
        speed: The result of a comparison with another wheel.
    """

    files: dict[str, bytes]
    parity: TestResult
    served: TestResult
    speed: Speed | None


def reports_beside(wheel: Path, sha256: str, also: Iterable[str] = ()) -> Reports:
    """Return the reports next to a wheel.

    Args:
        wheel: The file.
        sha256: Its digest; a report of another wheel, or of some operators' parity alone, does not count.
        also: What else is published with it, to which the build report may lead.

    Raises:
        PublishError: A report cannot be read.
    """
    parity: TestResult = "not run"
    served: TestResult = "not run"
    speed = None
    try:
        files = {name: path.read_bytes() for name in NAMES if (path := wheel.with_name(name)).is_file()}
        if JSON in files:
            found = read_parity(wheel.with_name(JSON))
            if found.sha256 == sha256 and not found.only:
                parity = "passed" if found.passed else "failed"
            else:
                files = {name: content for name, content in files.items() if name not in {JSON, HTML}}
        if SERVE in files:
            answers = Served.model_validate_json(files[SERVE])
            if answers.sha256 == sha256:
                served = "passed" if answers.right else "failed"
            else:
                del files[SERVE]
        if SPEED in files:
            speed = _speed(files[SPEED], sha256)
            if speed is None:
                del files[SPEED]
        if PAGE in files and RECORD in files:
            files[PAGE] = _page(wheel, files, also)
    except (OSError, UsageError, ValueError, KeyError, TypeError) as error:
        raise PublishError(
            f"a report of {wheel.name} cannot be read: {error}", where=wheel.parent, next_step="write it again"
        ) from error
    return Reports(files, parity, served, speed)


def _page(wheel: Path, files: dict[str, bytes], also: Iterable[str]) -> bytes:
    """Return the build report without links to what is not published; as it is if its record is another version's."""
    try:
        return published_report(wheel.parent, {*files, *also}).encode()
    except WheelError:
        return files[PAGE]


def _speed(report: bytes, sha256: str) -> Speed | None:
    """Return the result of a comparison; None if it is another wheel's, or of only some operators."""
    found = json.loads(report)
    if found["wheel"]["sha256"] != sha256 or found["only"]:
        return None
    slower = [one["operator"] for one in found["operators"] if one["high"] < LEAST_RATIO]
    return Speed(against=found["against"]["name"], ratio=found["geometric_mean"], slower=tuple(sorted(slower)))
