"""From the lines that test processes write to one library's result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cpuwheels.core.models import parse_as
from cpuwheels.verification.parity.findings import read_reports
from cpuwheels.verification.parity.results import CaseResult, LibraryResult

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.verification.parity.results import Verdict


class EventLog:
    """One library's file of JSON lines, which processes append to one after the other; each line is read once.

    Attributes:
        events: All that has been read.
        begun: Of them, the names of the cases that were begun.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._end = path, 0
        self.events: list[dict[str, Any]] = []
        self.begun: list[str] = []

    def read(self) -> None:
        """Read what is new, up to a line that is not finished."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._end)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                try:
                    self._add(parse_as(dict[str, Any], line, self._path))
                except (ValueError, KeyError):
                    break
                self._end += len(line)

    def append(self, event: dict[str, Any]) -> None:
        """Write an event after those that have been read, over what a killed process left unfinished there."""
        with self._path.open("r+b") as stream:
            stream.seek(self._end)
            stream.truncate()
            stream.write(json.dumps(event).encode() + b"\n")

    def _add(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event["event"] == "started":
            self.begun.append(event["case"])


def unfinished(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the event of the case that was begun last, if it never ended."""
    if events and events[-1]["event"] == "started":
        return events[-1]
    return None


def library_result(name: str, events: list[dict[str, Any]], seconds: float) -> LibraryResult:
    """Put a library's events together."""
    about = next(event for event in events if event["event"] == "library")
    return LibraryResult(
        name=name,
        operators=tuple(about["operators"]),
        registered=tuple(about["registered"]),
        cases=tuple(_case(event) for event in events if event["event"] in {"finished", "crashed"}),
        waived=about["waived"],
        untested=tuple(about["untested"]),
        seed=about["seed"],
        seconds=round(seconds, 3),
    )


def _verdict(event: dict[str, Any]) -> Verdict:
    if event["event"] == "crashed":
        return "crashed"
    if not event["problems"] and not event.get("reports"):
        return "passed"
    return "known" if event.get("known") else "failed"


def _case(event: dict[str, Any]) -> CaseResult:
    outputs = list(event.get("outputs", {}).values())
    # An output without a ratio is infinitely wrong.
    worst = max(outputs, key=lambda one: float("inf") if one["ratio"] is None else one["ratio"], default=None)
    found = read_reports(event.get("reports", ""))
    if event.get("reports") and not found and event["event"] == "finished":
        raise ValueError(f"a sanitizer's report cannot be read: {event['reports'][:2000]}")
    return CaseResult(
        name=event["case"],
        operators=tuple(event["operators"]),
        dtype=event.get("dtype", ""),
        verdict=_verdict(event),
        known=event.get("known", ""),
        ratio=worst["ratio"] if worst else None,
        error=worst["error"] if worst else None,
        limit=worst["limit"] if worst else None,
        seconds=event.get("seconds", 0.0),
        problems=(*event["problems"], *map(str, found)),
        findings=found,
    )
