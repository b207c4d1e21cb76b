"""The files next to a wheel that are published with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.config.options import LEAST_RATIO
from cpuwheels.core.errors import CpuwheelsError, PublishError
from cpuwheels.core.parse import parse_json
from cpuwheels.core.places import without_places
from cpuwheels.core.plain_file import read_plain
from cpuwheels.core.urls import without_userinfo
from cpuwheels.index.entry import Reproduced, Speed
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.recorded_build import OPERATORS
from cpuwheels.pipeline.report.write import PAGE, published_report
from cpuwheels.verification.benchmark.result import SPEED
from cpuwheels.verification.parity.html import parity_page
from cpuwheels.verification.parity.reports import HTML, JSON
from cpuwheels.verification.parity.results import Parity
from cpuwheels.verification.serving.result import SERVE, Served
from cpuwheels.verification.verified import VERIFY, Verified

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cpuwheels.index.entry import ParityResult, TestResult

NAMES = (RECORD, OPERATORS, JSON, SPEED, SERVE, VERIFY)
"""Those that are data."""

LARGEST = 64 << 20
"""Bytes of a report; ``parity.json`` of all cases has 10 MiB."""

_NAME = 80
"""Characters of an operator's name that a page shows."""


@dataclass(frozen=True)
class Reports:
    """The reports of one wheel.

    Attributes:
        files: Content by name.
        parity: The result of its parity.
        tried: What that was found with.
        gaps: What was not tried, and known faults.
        served: The result of serving it.
        speed: The result of a comparison with another wheel.
        sandbox: What confined upstream's code when it was built; empty if no record says it.
        reproduced: What came of a second build.
        locked: Whether its build could fetch only what is listed with its digest; None if no record says it.
    """

    files: dict[str, bytes]
    parity: ParityResult
    served: TestResult
    speed: Speed | None
    sandbox: str = ""
    tried: str = ""
    gaps: tuple[str, ...] = ()
    reproduced: Reproduced | None = None
    locked: bool | None = None


def companion_reports(wheel: Path, sha256: str, also: Iterable[str] = ()) -> Reports:
    """Return the reports next to a wheel.

    Args:
        wheel: The file.
        sha256: Its digest; a report of another wheel does not count.
        also: What else is published with it, to which the build report may lead.

    Raises:
        PublishError: A report cannot be read.
    """
    parity: ParityResult = "not run"
    tried = ""
    gaps: tuple[str, ...] = ()
    served: TestResult = "not run"
    speed = None
    try:
        files = _read(wheel)
        if JSON in files:
            found = Parity.model_validate_json(files[JSON])
            files[HTML] = parity_page(found).encode()  # that in the folder could hold anything
            if found.sha256 == sha256:
                parity, tried, gaps = found.judgement, found.tried, tuple(found.gaps)
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
        reproduced = _take_second_build(files, sha256)
        sandbox, locked = _take_record(files, sha256)
        if page := _page(wheel, files, also):
            files[PAGE] = page
    except (OSError, CpuwheelsError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PublishError(
            f"a report of {wheel.name} cannot be read: {error}", where=wheel.parent, next_step="write it again"
        ) from error
    return Reports(files, parity, served, speed, sandbox, tried, gaps, reproduced, locked)


def _take_second_build(files: dict[str, bytes], sha256: str) -> Reproduced | None:
    """Return what came of a second build; take out the report of another wheel's."""
    found = reproduced_of(files[VERIFY], sha256) if VERIFY in files else None
    if found is None:
        files.pop(VERIFY, None)
    return found


def reproduced_of(report: bytes, sha256: str) -> Reproduced | None:
    """Return what a ``verify.json`` says in short; None if it is another wheel's.

    Raises:
        ValueError: It is none that this version writes.
    """
    found = Verified.model_validate_json(report)
    if found.sha256 != sha256:
        return None
    return Reproduced(
        state="reproduced" if found.reproduced else "differs",
        moment=found.moment,
        varied=tuple(found.varied),
        not_varied=tuple(found.not_varied),
    )


def _read(wheel: Path) -> dict[str, bytes]:
    """Return the data among the reports next to a wheel, as every reader of JSON reads them; pages are made from them.

    Raises:
        MalformedDataError: One is not JSON.
        OSError: One cannot be read, is a link, or is too large.
    """
    files = {}
    for name in NAMES:
        try:
            content = read_plain(wheel.with_name(name), LARGEST)
        except FileNotFoundError:
            continue
        value = parse_json(content, name)
        shown = without_places(value)
        # What others cannot use is left out of it; otherwise it is published as it was written.
        files[name] = content if shown == value else (json.dumps(shown, indent=1, allow_nan=False) + "\n").encode()
    return files


def _page(wheel: Path, files: Mapping[str, bytes], also: Iterable[str]) -> bytes | None:
    """Return the build report without links to what is not published; None if the record is not one of this version."""
    if RECORD not in files:
        return None
    try:
        return without_userinfo(published_report(wheel.parent, {*files, PAGE, *also})).encode()
    except CpuwheelsError:
        return None


def _take_record(files: dict[str, bytes], sha256: str) -> tuple[str, bool | None]:
    """Return what confined the build, and whether it was locked; take out what is of another wheel."""
    if RECORD not in files:
        return "", None
    record = parse_json(files[RECORD], RECORD)
    if record.get("wheel", {}).get("sha256", sha256) == sha256:
        locked = (record.get("parameters") or {}).get("locked")
        return str(record.get("sandbox", {}).get("mechanism", "")), locked if isinstance(locked, bool) else None
    for name in (RECORD, OPERATORS):
        files.pop(name, None)
    return "", None


def _speed(report: bytes, sha256: str) -> Speed | None:
    """Return the result of a comparison; None if it is another wheel's, or of only some operators."""
    found = parse_json(report, SPEED)
    if found["wheel"]["sha256"] != sha256 or found["only"]:
        return None
    slower = [str(one["operator"])[:_NAME] for one in found["operators"] if one["high"] < LEAST_RATIO]
    return Speed(against=found["against"]["name"], ratio=found["geometric_mean"], slower=tuple(sorted(slower)))
