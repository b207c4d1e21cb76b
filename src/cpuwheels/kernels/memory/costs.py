"""What each file of a build costs: measured before, kept in the cache, with a seed in the project."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import storage_errors, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cpuwheels.kernels.memory.ledger import JobRecord

MARGIN = 1.02
"""A job's peak varies a little between runs; measured 1 % on the same file and compiler."""

_NOTABLE = 1.1
"""Ratio of measured to expected peak from which a prediction counts as wrong."""

_CLASS = re.compile(r"(?P<target>.*?CMakeFiles/[^/]+\.dir)/")


@dataclass(frozen=True)
class Cost:
    """What one compilation or link takes.

    Attributes:
        seconds: CPU time, that is, how long it takes on a CPU of its own.
        bytes: Peak memory.
    """

    seconds: float
    bytes: int


@dataclass(frozen=True)
class WrongPrediction:
    """A job that needed more memory than it was expected to.

    Attributes:
        output: The file it makes.
        expected: Bytes.
        measured: Bytes.
    """

    output: str
    expected: int
    measured: int


def read_costs(path: Path) -> dict[str, Cost]:
    """Read a table of costs: lines of seconds, bytes and output, divided by tabs.

    Other lines, cut short by a kill or written by another program, are skipped.
    """
    costs = {}
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 3:  # noqa: PLR2004  (seconds, bytes, name)
            continue
        try:
            cost = Cost(float(fields[0]), int(fields[1]))
        except ValueError:
            continue
        if 0 <= cost.seconds < float("inf") and cost.bytes > 0:
            costs[fields[2]] = cost
    return costs


def write_costs(path: Path, costs: Mapping[str, Cost], heading: str = "") -> None:
    """Write a table of costs, sorted by output.

    Raises:
        StoreError: It cannot be written.
    """
    rows = [f"{cost.seconds:.2f}\t{cost.bytes}\t{output}\n" for output, cost in sorted(costs.items())]
    with storage_errors(path.parent):
        write_atomic(path, "".join(f"# {line}\n" for line in heading.splitlines()) + "".join(rows))


def measured_costs(records: Iterable[JobRecord], known: Mapping[str, Cost] | None = None) -> dict[str, Cost]:
    """Return the known costs of jobs, updated with those of memgate's ledger.

    Of several runs of a job the last one that succeeded counts. One that failed or was ended shows the least it
    needs, so it counts if that is more than was known. A result from the compiler cache does not show what making it
    would cost.
    """
    costs = dict(known or {})
    for record in records:
        if record.cached:
            continue
        if record.status == 0 or record.output not in costs or costs[record.output].bytes < record.bytes:
            costs[record.output] = Cost(record.cpu_seconds, record.bytes)
    return costs


def wrong_predictions(records: Iterable[JobRecord]) -> list[WrongPrediction]:
    """Return the jobs of a ledger that needed notably more than they were expected to, the worst first."""
    found: dict[str, WrongPrediction] = {}
    for record in records:
        if 0 < _NOTABLE * record.expected_bytes < record.bytes and record.attempt == 1:
            found[record.output] = WrongPrediction(record.output, record.expected_bytes, record.bytes)
    return sorted(found.values(), key=lambda wrong: wrong.expected - wrong.measured)


def expected_costs(outputs: Iterable[str], known: Mapping[str, Cost], unknown: Cost) -> dict[str, Cost]:
    """Return what each output is expected to cost.

    A file that was never measured is taken to need what the largest one of its CMake target does. No two are expected
    to take the same time, if only by the smallest step that there is: the gate tells jobs apart by it.

    Args:
        outputs: Files that the build makes, relative to its folder.
        known: Measured before.
        unknown: Cost of a file of a target without known costs.
    """
    largest: dict[str, Cost] = {}
    for output, cost in known.items():
        name = job_class(output)
        before = largest.get(name, cost)
        largest[name] = Cost(max(before.seconds, cost.seconds), max(before.bytes, cost.bytes))
    return _distinct({output: known.get(output) or largest.get(job_class(output), unknown) for output in outputs})


def _distinct(costs: Mapping[str, Cost]) -> dict[str, Cost]:
    found: dict[str, Cost] = {}
    taken: set[float] = set()
    for output, cost in costs.items():
        seconds = cost.seconds
        while seconds in taken:
            seconds = math.nextafter(seconds, math.inf)
        taken.add(seconds)
        found[output] = Cost(seconds, cost.bytes)
    return found


def job_class(output: str) -> str:
    """Return the CMake target that a file belongs to; all links are of one class."""
    match = _CLASS.match(output)
    return match["target"] if match else "link"
