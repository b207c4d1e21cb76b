"""What a test process writes down: one line of JSON for each event, so that a crash loses nothing."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import torch

from harness.case import Case
from harness.compare import compare_within, is_within
from harness.defects import Defect
from harness.execution import Outcome
from harness.limits import Bound
from harness.sanitizers import Reports


class Recorder:
    """Appends to a file of JSON lines; the last line of a process that died names the case that killed it.

    Attributes:
        reports: What sanitizers write meanwhile.
    """

    def __init__(self, path: Path | None, reports: Reports | None = None) -> None:
        self._path = path
        self.reports = reports or Reports(None)

    def write(self, event: str, **fields: Any) -> None:
        """Append one event."""
        if self._path is None:
            return
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"event": event, **fields}) + "\n")

    def started(self, case: Case, *, drawn: bool = False) -> None:
        """Note that a case begins, whether its sizes were drawn, and how much sanitizers have reported so far."""
        self.write("started", case=case.name, operators=case.operators, drawn=drawn, reported=self.reports.read)

    def finished(self, case: Case, outcome: Outcome, known: Defect | None = None, reports: str = "") -> None:
        """Note what a case gave, the fault that it is known to show, and what sanitizers reported."""
        self.write(
            "finished",
            case=case.name,
            operators=case.operators,
            dtype=case.dtype,
            seconds=round(outcome.seconds, 6),
            problems=outcome.problems,
            known=known.name if known else "",
            reports=reports,
            reported=self.reports.read,
            outputs={
                name: {"ratio": _finite(found.ratio), "error": _finite(found.error), "limit": _finite(found.limit)}
                for name, found in outcome.agreements.items()
            },
        )


class OtherLibraries:
    """The outputs of each case in other libraries, and the comparison with them."""

    def __init__(self, folder: Path | None, library: str) -> None:
        self._folder = folder
        self._library = library

    def check(self, case: Case, outcome: Outcome) -> None:
        """Compare outputs that have a limit with those of other libraries, within the sum of both limits; keep them.

        Outputs that have one right answer are the same everywhere if each is right. What differs is added to the
        outcome's problems.
        """
        if self._folder is None:
            return
        kept = {name: (outcome.outputs[name], bound.total.float()) for name, bound in outcome.bounds.items()}
        place = self._folder / self._library / _file(case)
        self._keep(kept, place)
        # Where libraries run side by side, whichever keeps its outputs later finds those of the other.
        for path in sorted(self._folder.glob(f"*/{place.name}")):
            if path == place:
                continue
            before = torch.load(path)
            for name in sorted(set(kept) & set(before)):
                (mine, limit), (other, others) = kept[name], before[name]
                total, other = limit.double() + others, other.double()
                if is_within(mine, other, total):
                    continue
                found = compare_within(mine, other, Bound(total, torch.zeros_like(total)))
                if found.message:
                    outcome.problems.append(f"{name}: not as in {path.parent.name}: {found.message}")

    @staticmethod
    def _keep(outputs: dict[str, Any], place: Path) -> None:
        """Write outputs in one rename: another library's process may be reading them."""
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_suffix(f".{os.getpid()}")
        torch.save(outputs, fresh)
        fresh.replace(place)


def _file(case: Case) -> str:
    return f"{zlib.crc32(case.name.encode()):08x}.pt"


def _finite(number: float) -> float | None:
    """JSON has no infinity."""
    return number if number < float("inf") else None
