"""A case's outputs in one library against those in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.case import Case
from harness.execution import Outcome
from harness.limits import Bound
from harness.records import OtherLibraries

PARITY = Path(__file__).parents[1] / "parity"
LIMIT = 0.25
"""Of each output; a power of two, so that sums of it are exact."""


def outcome(*values: float, name: str = "out", limit: float | None = LIMIT) -> Outcome:
    """Return an outcome with one output, all of whose elements have one limit; or none."""
    total = torch.full((len(values),), limit or 0.0, dtype=torch.float64)
    bounds = {name: Bound(total, torch.zeros_like(total))} if limit is not None else {}
    return Outcome(outputs={name: torch.tensor(values)}, bounds=bounds)


def case(name: str = "double[3]") -> Case:
    return Case(("double",), name, "", lambda *_: None, {})  # type: ignore[arg-type,return-value]


def problems(folder: Path, library: str, found: Outcome, of: Case | None = None) -> list[str]:
    OtherLibraries(folder, library).check(of or case(), found)
    return found.problems


@pytest.mark.parametrize(
    ("apart", "right"), [(0.0, True), (LIMIT, True), (2 * LIMIT, True), (2 * LIMIT + 2**-20, False), (100.0, False)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_two_libraries_may_differ_by_both_limits_together(tmp_path: Path, apart: float, sign: int, right: bool) -> None:
    assert problems(tmp_path, "_C", outcome(0.0, 1.0, 2.0)) == []
    found = problems(tmp_path, "_C_AVX2", outcome(0.0, 1.0, 2.0 + sign * apart))
    assert len(found) == (not right)
    assert all(each.startswith("out: not as in _C: 1 of 3 elements are wrong; the worst at [2]") for each in found)


def test_each_has_its_own_limit(tmp_path: Path) -> None:
    problems(tmp_path, "_C", outcome(0.0, limit=4 * LIMIT))
    assert problems(tmp_path, "_C_AVX2", outcome(5 * LIMIT)) == []
    (problem,) = problems(tmp_path, "_C_AVX512", outcome(-5 * LIMIT))
    assert problem.startswith("out: not as in _C_AVX2: ")
    assert problem.endswith("-1.25 instead of 1.25, error 2.5, limit 0.5")


def test_not_a_number_in_one_library_alone_is_wrong(tmp_path: Path) -> None:
    problems(tmp_path, "_C", outcome(float("nan"), float("nan")))
    assert problems(tmp_path, "_C_AVX2", outcome(float("nan"), float("nan"))) == []
    assert len(problems(tmp_path, "_C_AVX512", outcome(float("nan"), 0.0))) == 2


def test_other_cases_and_other_outputs_are_not_compared(tmp_path: Path) -> None:
    problems(tmp_path, "_C", outcome(0.0))
    assert problems(tmp_path, "_C_AVX2", outcome(100.0), case("double[4]")) == []
    assert problems(tmp_path, "_C_AVX2", outcome(100.0, name="more")) == []


def test_an_output_without_a_limit_has_one_right_answer_and_is_not_compared(tmp_path: Path) -> None:
    problems(tmp_path, "_C", outcome(0.0, limit=None))
    assert problems(tmp_path, "_C_AVX2", outcome(100.0, limit=None)) == []


def test_what_was_wrong_before_stays_wrong(tmp_path: Path) -> None:
    problems(tmp_path, "_C", outcome(0.0))
    found = outcome(100.0)
    found.problems.append("out: too far")
    assert [each.partition(":")[2][:9] for each in problems(tmp_path, "_C_AVX2", found)] == [" too far", " not as i"]


@pytest.mark.parametrize("late", [True, False])
def test_side_by_side_whichever_keeps_its_outputs_later_compares(tmp_path: Path, late: bool) -> None:
    """The other library's outputs come just before, or just after, this one's are kept."""

    class Overtaken(OtherLibraries):
        @staticmethod
        def _keep(outputs: dict[str, Any], place: Path) -> None:
            if late:
                OtherLibraries._keep(outputs, place)
            found.extend(problems(tmp_path, "_C_AVX2", outcome(100.0)))
            if not late:
                OtherLibraries._keep(outputs, place)

    found: list[str] = []
    this = outcome(0.0)
    Overtaken(tmp_path, "_C").check(case(), this)
    assert any("not as in _C_AVX2" in each for each in this.problems)
    assert any("not as in _C:" in each for each in found) is late


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = outcome(100.0)
    OtherLibraries(None, "_C").check(case(), found)
    assert found.problems == []
    assert list(tmp_path.iterdir()) == []


PLACEHOLDER = """
import torch

def load(path):
    global definition
    definition = torch.library.Library("_C", "FRAGMENT")
    definition.define("gelu_quick(Tensor! out, Tensor input) -> ()")
    factor = 1.5 if "WRONG" in path else 1.0
    def gelu_quick(out, x):
        if x.shape[-1] % 8:
            raise RuntimeError("only whole vectors")
        out.copy_(factor * x.double() / (1 + torch.exp(-1.702 * x.double())))
    definition.impl("gelu_quick", gelu_quick, "CPU")

torch.ops.load_library = load
"""
"""Makes a library of operators in Python of any path."""


@pytest.fixture
def suite(tmp_path: Path) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    """Run the smoke level of the suite on a library that stands for one; return its status and its events."""
    (tmp_path / "stand_in.py").write_text(PLACEHOLDER)
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}

    def run(library: str, *more: str) -> tuple[int, list[dict[str, Any]]]:
        results = tmp_path / f"{library}.jsonl"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "stand_in",
            "-c",
            os.devnull,
            "--confcutdir",
            PARITY,
            PARITY,
            "--library",
            tmp_path / f"{library}.abi3.so",
            "--level",
            "smoke",
            "--threads",
            "1",
            "--results",
            results,
            "--outputs",
            tmp_path / "outputs",
            *more,
        ]
        done = subprocess.run(command, env=variables, text=True, capture_output=True, check=False)
        events = [json.loads(line) for line in results.read_text().splitlines()]
        finished = [event for event in events if event["event"] == "finished"]
        assert finished, done.stdout + done.stderr
        return done.returncode, finished

    return run


def test_the_suite_fails_a_right_case_that_another_library_has_otherwise(
    suite: Callable[..., tuple[int, list[dict[str, Any]]]],
) -> None:
    status, first = suite("_C_WRONG")
    assert status == 1
    assert all("not as in" not in problem for event in first for problem in event["problems"])
    status, second = suite("_C")
    assert status == 1
    there = [event for event in second if event["problems"]]
    assert there
    assert all("not as in _C_WRONG" in problem for event in there for problem in event["problems"])
    assert {event["case"] for event in there} <= {event["case"] for event in first if event["problems"]}


def test_parts_have_each_case_once(suite: Callable[..., tuple[int, list[dict[str, Any]]]]) -> None:
    whole = [event["case"] for event in suite("_C")[1]]
    parts = [[event["case"] for event in suite(f"_C_{number}", "--part", f"{number}/3")[1]] for number in (1, 2, 3)]
    assert sorted(case for part in parts for case in part) == sorted(whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parts[1][0] == whole[1]
