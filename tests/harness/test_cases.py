"""Which calls there are: combinations of parameters, and their names."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.case import Family, refusal


def family(**parameters: Any) -> Family:
    return Family(("a",), lambda *_, **__: None, parameters, {}, lambda **_: True)


def test_the_full_level_is_every_combination_and_smoke_has_every_value() -> None:
    many = family(dtype=[torch.float32, torch.bfloat16], size=[1, 2, 3, 500], flag=[True, False])
    assert len(list(many.cases("full"))) == 16
    smoke = list(many.cases("smoke"))
    assert len(smoke) <= 5
    for name, values in many.parameters.items():
        assert {repr(case.parameters[name]) for case in smoke} == {repr(value) for value in values}


def test_a_family_without_parameters_is_one_case() -> None:
    for level in ("smoke", "full"):
        (only,) = family().cases(level)
        assert only.parameters == {}
        assert "[" not in only.name


def test_smoke_does_not_show_a_value_with_empty_shapes_alone() -> None:
    dtypes = [torch.float32, torch.bfloat16, torch.float16]
    many = family(dtype=dtypes, shape=[(0, 16), (1, 8), (3, 24)], count=[0, 1])
    shown = [case.parameters for case in many.cases("smoke")]
    assert {each["dtype"] for each in shown if each["shape"][0] and each["count"]} == set(dtypes)
    assert any(each["shape"] == (0, 16) for each in shown)
    assert any(each["count"] == 0 for each in shown)


def test_false_is_no_empty_value() -> None:
    many = family(flag=[False, True], shape=[(0, 4), (2, 4)])
    first, *_ = many.cases("smoke")
    assert first.parameters["shape"] == (2, 4)
    assert {case.parameters["flag"] for case in many.cases("smoke")} == {False, True}


def test_names_are_readable_and_distinct() -> None:
    many = family(dtype=[torch.float32], shape=[(1, 2), ()], flag=[True, False], scale=[0.5, None], mode=["x"])
    names = [case.name for case in many.cases("full")]
    assert len(set(names)) == len(names) == 8
    assert "float32-1x2-flag-scale=0.5-x" in names[0]


def test_a_refusal_is_an_error_and_no_result() -> None:
    def refuse() -> None:
        raise RuntimeError("no")

    assert refusal(refuse)["refused"].item() is True
    assert refusal(lambda: None)["refused"].item() is False
    with pytest.raises(ZeroDivisionError):
        refusal(lambda: 1 / 0)
