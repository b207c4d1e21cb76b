"""Every case of every operator that the library registers."""

from __future__ import annotations

import pytest

from harness.case import Case
from harness.defects import Build, known_defect
from harness.execution import run_case
from harness.library import Library
from harness.records import OtherLibraries, Recorder
from harness.selection import uncovered


def test_has_an_oracle(operator: str, library: Library) -> None:
    assert not uncovered([operator], library.operators, library.takes), (
        f"{operator} has neither a case nor a waiver: add one to cases/, or a reason to waivers.toml"
    )


def test_agrees(
    case: Case,
    library: Library,
    threads: int,
    runs: dict[str, bool],
    recorder: Recorder,
    others: OtherLibraries,
    build: Build,
) -> None:
    recorder.started(case)
    outcome = run_case(case, library, threads, **runs)
    others.check(case, outcome)
    reports = recorder.reports.new()
    known = None if reports else known_defect(case, library.name, build, outcome.problems)
    recorder.finished(case, outcome, known, reports)
    if known and outcome.problems:
        pytest.xfail(known.reason)
    if outcome.problems or reports:
        pytest.fail("\n".join([*outcome.problems, reports]), pytrace=False)
