"""Results as a grid of operators and libraries."""

from __future__ import annotations

import pytest

from cpuwheels.verification.parity.grid import Cell, grid
from sample_results import case, library, parity


def cell(*cases: object, **more: object) -> Cell:
    (line,) = grid(parity(library("_C", *cases, **more)))  # type: ignore[arg-type]
    return line.cells[0]


def test_each_operator_has_a_cell_for_each_library() -> None:
    found = grid(parity(library("_C", case("b[1]"), case("a[1]")), library("_C_AVX2", case("b[1]"))))
    assert [line.operator for line in found] == ["a", "b"]
    assert [[row.library for each in line.cells for row in each.rows] for line in found] == [["_C"], ["_C", "_C_AVX2"]]
    assert [len(line.cells) for line in found] == [2, 2]
    assert found[0].cells[1].verdict is None


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        ([case("a[1]")], "passed"),
        ([case("a[1]"), case("a[2]", 2.0, dtype="bfloat16", problem="far")], "failed"),
        ([case("a[1]", 2.0, problem="far", known="a is wrong")], "known"),
        ([case("a[1]"), case("a[2]", 2.0, dtype="bfloat16", problem="far", known="a is wrong")], "passed"),
    ],
)
def test_what_is_wrong_with_one_type_is_wrong_with_the_operator(cases: list[object], verdict: str) -> None:
    assert cell(*cases).verdict == verdict


def test_the_worst_of_those_that_passed_is_shown() -> None:
    far = case("a[3]", 9.0, dtype="float16", problem="far", known="a is wrong")
    found = cell(case("a[1]", 0.25), case("a[2]", 0.5, dtype="bfloat16"), far)
    assert (found.worst, found.share, found.known) == (0.5, "0.50", 1)
    assert cell(case("a[1]", 0.0)).share == "exact"


def test_a_waived_operator_has_its_reason() -> None:
    (line,) = grid(parity(library("_C", waived=("w",))))
    assert (line.cells[0].verdict, line.reason) == ("waived", "needs <another> machine")
    (line,) = grid(parity(library("_C", case("a[1]"))))
    assert line.reason == ""
