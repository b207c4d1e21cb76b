"""Runs the cases of operators on a library with planted faults; runs where torch is installed.

Arguments: the folder of the cases, the library, and a file of JSON with

    version     of vLLM, and
    fixed       names of the known faults that the library does not have
    onednn      release of the oneDNN in it
    trials      what is tried, each a process: the fault's number and an operator; or 0 and no operator, which is every
                case without a fault
    known       cases that fail without a fault

A line of JSON on standard output for each trial has the case that finds the fault, its level, and what is wrong.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from forked import Say, apart

if TYPE_CHECKING:
    from harness.case import Case

THREADS = 2
SECONDS = 60
"""A case that takes longer has found a fault: without one none takes a tenth of that."""


def try_all(path: Path, job: dict[str, Any], say: Say) -> None:
    """Try every case and say which of them are wrong."""
    from harness.defects import Build, known_defect  # noqa: PLC0415  (found only once main has said where)
    from harness.execution import run_case  # noqa: PLC0415
    from harness.library import Library  # noqa: PLC0415
    from harness.selection import cases_for, uncovered  # noqa: PLC0415

    library = Library(path, fixed=job["fixed"])
    build = Build(job["version"], frozenset(job["fixed"]), job["onednn"])
    wrong: dict[str, str] = {}
    known: list[str] = []
    chosen = cases_for(library.operators, "full", library.takes)
    for case in chosen:
        say(wrong={case.name: "the process died"}, known=known, operators=library.operators, cases=len(chosen))
        if problems := run_case(case, library, THREADS).problems:
            if known_defect(case, library.name, build, problems):
                known.append(case.name)
            else:
                wrong[case.name] = problems[0]
    left = uncovered(library.operators, library.operators, library.takes)
    say(wrong=wrong, known=known, operators=library.operators, cases=len(chosen), uncovered=left)


def try_fault(path: Path, job: dict[str, Any], operator: str, say: Say) -> None:
    """Try the cases of an operator, those of the smoke level first, until one is wrong."""
    from harness.execution import run_case  # noqa: PLC0415
    from harness.library import Library  # noqa: PLC0415

    library, known = Library(path, fixed=job["fixed"]), set(job["known"])
    for level in ("smoke", "full"):
        for case in _cases(library, operator, level):
            if case.name in known:
                continue
            say(case=case.name, problem="the process died", level=level)
            if problems := run_case(case, library, THREADS).problems:
                return say(case=case.name, problem=problems[0], level=level)
    return say(case=None)


def _cases(library: Any, operator: str, level: str) -> list[Case]:
    """Return an operator's cases of a level, those of the smoke level for that one alone."""
    from harness.selection import families_for  # noqa: PLC0415

    tried = [family for family in families_for(library.operators, library.takes) if operator in family.operators]
    few = {case.name for family in tried for case in family.cases("smoke")}
    chosen = [case for family in tried for case in family.cases("smoke" if level == "smoke" else "full")]
    return [case for case in chosen if level == "smoke" or case.name not in few]


def _try(path: Path, job: dict[str, Any], number: int, operator: str, say: Say) -> None:
    os.environ["PLANTED"] = str(number)
    if number:
        try_fault(path, job, operator, say)
    else:
        try_all(path, job, say)


def main() -> None:
    """Try everything in turn."""
    tests, path, job = sys.argv[1], Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text("utf-8"))
    sys.path.insert(0, tests)
    from harness import execution  # noqa: PLC0415
    from harness.selection import families  # noqa: PLC0415

    execution.SECONDS = SECONDS
    torch.set_num_threads(1)  # OpenMP's threads are not in a fork
    families()
    for number, operator in job["trials"]:
        began = time.monotonic()
        answer = apart(lambda say, number=number, operator=operator: _try(path, job, number, operator, say))
        answer |= {"fault": number, "operator": operator, "seconds": round(time.monotonic() - began, 1)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
