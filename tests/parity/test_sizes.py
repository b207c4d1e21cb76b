"""The deep level: sizes that hypothesis draws and, where one fails, makes small."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies

from harness.case import BASE_SEED, Family
from harness.defects import Build, known_defect
from harness.execution import run_case
from harness.library import Library
from harness.records import Recorder

EXAMPLES = 50


def test_agrees_with_drawn_sizes(
    family: Family, library: Library, threads: int, recorder: Recorder, build: Build
) -> None:
    fixed = {name: strategies.sampled_from(list(values)) for name, values in family.parameters.items()}
    drawn = {name: strategy(strategies) for name, strategy in family.deep.items()}

    @hypothesis.seed(BASE_SEED)
    @hypothesis.settings(
        deadline=None,
        max_examples=EXAMPLES,
        database=None,
        print_blob=False,
        # Calls may be slow, and many combinations may mean nothing.
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategies.fixed_dictionaries(fixed | drawn))
    def agree(parameters: dict[str, object]) -> None:
        hypothesis.assume(family.where(**parameters))
        case = family.case(parameters)
        recorder.started(case, drawn=True)
        outcome = run_case(case, library, threads)
        reports = recorder.reports.new()
        known = None if reports else known_defect(case, library.name, build, outcome.problems)
        recorder.finished(case, outcome, known, reports)
        if reports or (outcome.problems and not known):
            pytest.fail(f"{case.name}: " + "\n".join([*outcome.problems, reports]))

    agree()
