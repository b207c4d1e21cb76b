"""From the lines that test processes write to one library's result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cpuwheels.parity.results import CaseResult, LibraryResult

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.parity.results import Verdict


def read_events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a file of JSON lines; a last line that a killed process left unfinished is left out."""
    if not path.is_file():
        return []
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            break
    return events


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
    if not event["problems"]:
        return "passed"
    return "known" if event.get("known") else "failed"


def _case(event: dict[str, Any]) -> CaseResult:
    outputs = list(event.get("outputs", {}).values())
    # An output without a ratio is infinitely wrong.
    worst = max(outputs, key=lambda one: float("inf") if one["ratio"] is None else one["ratio"], default=None)
    problems = tuple(event["problems"])
    return CaseResult(
        name=event["case"], operators=tuple(event["operators"]), dtype=event.get("dtype", ""),
        verdict=_verdict(event), known=event.get("known", ""),
        ratio=worst["ratio"] if worst else None, error=worst["error"] if worst else None,
        limit=worst["limit"] if worst else None, seconds=event.get("seconds", 0.0), problems=problems,
    )  # fmt: skip
