"""Running a case, on operators made up in conftest.py."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import execution
from harness import library as libraries
from harness.case import Call, Case, refused
from harness.draw import Draw
from harness.execution import run_case
from harness.expected import Exact, Near
from harness.library import Library, SchemaViolationError
from harness.limits import Limit, OperatorLimits


def doubling(operator: str) -> Case:
    def build(library: Any, draw: Draw, *, size: int) -> Call:
        x = draw.normal([size])
        out = draw.output([size], torch.float32)

        def run() -> dict[str, torch.Tensor]:
            getattr(library, operator)(out, x)
            return {"out": out}

        return Call(run, lambda: {"out": Near(x.double() * 2)})

    return Case((operator,), "case", "", build, {"size": 17})


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is known of every operator; a test may change it."""
    known: dict[str, Any] = {"deterministic": True, "limits": {"*": Limit(absolute=1e-4)}}
    monkeypatch.setattr(execution, "operator_limits", lambda _: OperatorLimits("why", **known))
    return known


def test_a_right_operator_has_no_problems(library: Library) -> None:
    outcome = run_case(doubling("double"), library, 2)
    assert outcome.problems == []
    assert outcome.agreements["out"].ratio == 0
    assert outcome.bounds["out"].total.shape == (17,)


@pytest.mark.parametrize(
    ("operator", "problem"),
    [
        ("double_and_overrun", "wrote after the memory of its output 0"),
        ("double_sometimes", "a second run gave other bits"),
        ("double_by_threads", "one thread gave other bits"),
        ("double_and_spoil", "changed its argument 'x'"),
        ("double_nothing", "RuntimeError: not supported"),
    ],
)
def test_faults_beside_the_result_are_found(library: Library, operator: str, problem: str) -> None:
    problems = run_case(doubling(operator), library, 2).problems
    assert any(problem in each for each in problems), problems


@pytest.mark.parametrize(
    ("deterministic", "operator", "right"),
    [
        (True, "double_by_threads", False),
        ("threads", "double_by_threads", True),
        (False, "double_by_threads", True),
        ("threads", "double_sometimes", False),
        (False, "double_sometimes", True),
    ],
)
def test_bits_may_differ_where_the_limits_say_so(
    library: Library, limits: dict[str, Any], deterministic: object, operator: str, right: bool
) -> None:
    limits["deterministic"] = deterministic
    assert (run_case(doubling(operator), library, 2).problems == []) is right


@pytest.mark.parametrize(
    ("deterministic", "threads", "twice", "runs"),
    [
        (True, 2, True, [2, 2, 1]),
        (True, 2, False, [2, 1]),
        ("threads", 2, False, [2, 2]),
        (True, 1, False, [1, 1]),
        (False, 2, True, [2]),
    ],
)
def test_a_second_run_with_as_many_threads_may_be_left_out_where_one_with_one_thread_shows_the_same(
    library: Library, limits: dict[str, Any], deterministic: object, threads: int, twice: bool, runs: list[int]
) -> None:
    limits["deterministic"] = deterministic
    seen: list[int] = []
    case = doubling("double")

    def build(library: Any, draw: Draw, *, size: int) -> Call:
        call = case.function(library, draw, size=size)
        return Call(lambda: seen.append(torch.get_num_threads()) or call.run(), call.expected)

    assert run_case(dataclasses.replace(case, function=build), library, threads, twice=twice).problems == []
    assert seen == runs


@pytest.mark.parametrize("threads", [1, 2])
def test_a_case_may_be_run_once(library: Library, threads: int) -> None:
    assert run_case(doubling("double_sometimes"), library, threads, once=True).problems == []


def made(dtype: torch.dtype, *, wide: bool, formats: Mapping[str, torch.dtype]) -> Case:
    """Return a case of an operator that makes one output, and fills another that it is given."""

    def build(library: Any, draw: Draw) -> Call:
        x, given = draw.normal([17], dtype), draw.output([17], torch.float64)

        def run() -> dict[str, torch.Tensor]:
            out, filled = library.doubled(given, x, wide)
            return {"out": out, "given": filled}

        expected = {"out": Near(x.double() * 2), "given": Near(torch.ones(17, dtype=torch.float64))}
        return Call(run, lambda: expected, formats=formats)

    return Case(("doubled",), "case", str(dtype).removeprefix("torch."), build, {})


@pytest.mark.parametrize(
    ("wide", "named", "of_the_case", "right"),
    [
        (False, {}, {}, True),
        (True, {}, {}, False),
        (True, {"out": "float32"}, {}, True),
        (False, {"out": "float32"}, {}, False),
        (True, {"*": "float64"}, {"out": torch.float32}, True),
        (False, {}, {"out": torch.float32}, False),
    ],
)
def test_what_an_operator_makes_has_its_format(
    library: Library,
    limits: dict[str, Any],
    wide: bool,
    named: dict[str, str],
    of_the_case: dict[str, torch.dtype],
    right: bool,
) -> None:
    limits["limits"], limits["formats"] = {"*": Limit(stored=4.0)}, named
    problems = run_case(made(torch.bfloat16, wide=wide, formats=of_the_case), library, 1).problems
    assert (problems == []) is right, problems
    assert right or all(re.match(r"out: the output is (bfloat16|float32) instead of ", each) for each in problems)


def test_a_format_that_nobody_names_is_a_problem(library: Library) -> None:
    case = dataclasses.replace(made(torch.bfloat16, wide=False, formats={}), dtype="")
    (problem,) = run_case(case, library, 1).problems
    assert problem == "out: nothing says that the output is to be bfloat16: name its format in limits/"


def test_what_an_oracle_raises_is_a_problem(library: Library) -> None:
    def build(library: Any, draw: Draw) -> Call:  # noqa: ARG001
        def expected() -> Mapping[str, Near]:
            raise ZeroDivisionError("in the oracle")

        return Call(dict, expected)

    assert run_case(Case(("double",), "x", "", build, {}), library, 1).problems == ["ZeroDivisionError: in the oracle"]


@pytest.mark.parametrize("operator", ["double", "double_nothing"])
def test_the_number_of_threads_stays(library: Library, operator: str) -> None:
    run_case(doubling(operator), library, 2)
    assert torch.get_num_threads() == 2


def test_a_limit_that_is_missing_is_a_problem(library: Library, limits: dict[str, Any]) -> None:
    limits["limits"] = {}
    assert "there is no limit" in run_case(doubling("double"), library, 1).problems[0]


def test_an_input_may_not_be_changed(library: Library) -> None:
    with pytest.raises(SchemaViolationError, match="changed its argument 'x'"):
        library.double_and_spoil(torch.zeros(2), torch.ones(2))


def test_what_a_schema_does_not_mark_may_be_written_if_it_is_known(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schemas.toml").write_text('[double_and_spoil]\nx = "zeros"\n[double]\nother = "nothing"\n')
    monkeypatch.setattr(libraries, "TABLES", tmp_path)
    libraries._unmarked.cache_clear()
    try:
        assert run_case(doubling("double_and_spoil"), library, 1).problems == []
        monkeypatch.setattr(library, "_all_marked", True)  # a wheel that says that this fault is fixed
        assert "changed its argument 'x'" in run_case(doubling("double_and_spoil"), library, 1).problems[0]
    finally:
        libraries._unmarked.cache_clear()


def test_a_case_that_calls_another_operator_proves_nothing(library: Library) -> None:
    case = doubling("double")
    other = Case(("double_sometimes",), case.name, "", case.function, case.parameters)
    assert any("never called double_sometimes" in each for each in run_case(other, library, 1).problems)


def test_an_output_that_the_oracle_does_not_know_is_a_problem(library: Library) -> None:
    def build(library: Any, draw: Draw) -> Call:
        out = draw.output([3], torch.float32)
        library.double(out, draw.normal([3]))
        return Call(lambda: {"out": out, "more": out}, lambda: {"out": Near(out.double())})

    problems = run_case(Case(("double",), "x", "", build, {}), library, 1).problems
    assert "the oracle has ['out']" in problems[0]


@pytest.mark.parametrize(("operator", "right"), [("double_nothing", True), ("double", False)])
def test_what_is_to_be_refused_must_raise(library: Library, operator: str, right: bool) -> None:
    def build(library: Any, draw: Draw) -> Call:
        out, x = draw.output([3], torch.float32), draw.normal([3])
        return refused(lambda: getattr(library, operator)(out, x))

    assert (run_case(Case((operator,), "x", "", build, {}), library, 1).problems == []) is right


def test_outputs_without_a_limit_have_no_bound(library: Library) -> None:
    def build(library: Any, draw: Draw) -> Call:
        out, x = draw.output([3], torch.float32), draw.normal([3])
        return Call(lambda: library.double(out, x) or {"out": out}, lambda: {"out": Exact(x * 2)})

    outcome = run_case(Case(("double",), "x", "", build, {}), library, 1)
    assert outcome.problems == []
    assert outcome.bounds == {}


@pytest.mark.parametrize(("cut_off", "right"), [(frozenset(), False), (frozenset({"bfloat16"}), True)])
def test_a_library_that_cuts_off_may_err_by_twice_as_much(
    library: Library, limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch, cut_off: frozenset[str], right: bool
) -> None:
    limits["limits"] = {"*": Limit()}
    monkeypatch.setattr(library, "cut_off", cut_off)

    def build(library: Any, draw: Draw) -> Call:
        out, x = draw.output([64], torch.float32), draw.normal([64])

        def run() -> dict[str, torch.Tensor]:
            library.double(out, x)
            return {"out": (out.view(torch.int32) >> 16 << 16).view(torch.float32).bfloat16()}

        return Call(run, lambda: {"out": Near(x.double() * 2)})

    assert (run_case(Case(("double",), "x", "", build, {}), library, 1).problems == []) is right


def test_a_library_is_known_by_the_name_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libraries.toml").write_text('[_C_OLD]\ncut_off = ["bfloat16"]\nfault = "Cut off"\n')
    monkeypatch.setattr(libraries, "TABLES", tmp_path)
    monkeypatch.setattr(torch.ops, "load_library", lambda _: None)
    old, new = Library(tmp_path / "_C_OLD.abi3.so"), Library(tmp_path / "_C.abi3.so")
    fixed = Library(tmp_path / "_C_OLD.abi3.so", fixed=["Cut off"])
    assert (old.name, new.name) == ("_C_OLD", "_C")
    assert (old.cut_off, new.cut_off, fixed.cut_off) == ({"bfloat16"}, frozenset(), frozenset())
