"""Which cases a library gets: by its operators, and by the arguments that they take."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cases import versions
from harness import selection
from harness.case import Family
from harness.library import Library
from harness.selection import cases_for, families_for, uncovered


def family(name: str, *operators: str, takes: tuple[str, ...] = (), lacks: tuple[str, ...] = ()) -> Family:
    def function() -> None:
        raise AssertionError

    function.__name__ = name
    return Family(operators, function, {}, {}, lambda **_: True, takes, lacks)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    made = (
        family("always", "add"),
        family("new", "add", takes=("scale",)),
        family("newest", "add", takes=("scale", "bound")),
        family("old", "add", lacks=("scale",)),
        family("pair", "add", "pack", takes=("scale",)),
        family("placeholder", "quant", lacks=("result",)),
    )
    monkeypatch.setattr(selection, "families", lambda: made)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (set(), ["always", "old"]),
        ({"scale"}, ["always", "new"]),
        ({"scale", "bound"}, ["always", "new", "newest"]),
        ({"bound"}, ["always", "old"]),
    ],
)
def test_families_ask_for_arguments_of_their_operator(arguments: set[str], names: list[str]) -> None:
    def takes(operator: str, argument: str) -> bool:
        return operator == "add" and argument in arguments

    assert [case.name for case in cases_for(["add"], "full", takes)] == names
    assert [each.function.__name__ for each in families_for(["add"], takes)] == names


def test_only_the_first_operator_is_asked() -> None:
    chosen = families_for(["add", "pack"], lambda operator, argument: (operator, argument) == ("pack", "scale"))
    assert "pair" not in [each.function.__name__ for each in chosen]


def test_without_a_library_there_are_the_families_of_all_versions() -> None:
    assert len(families_for(["add", "pack", "quant"])) == 6


def test_an_operator_whose_families_want_other_arguments_is_not_covered() -> None:
    assert uncovered(["quant"], ["quant"], lambda *_: True) == ["quant"]
    assert uncovered(["quant"], ["quant"], lambda *_: False) == []
    assert uncovered(["quant"], ["quant"]) == []


def test_a_library_knows_the_arguments_of_its_operators(library: Library) -> None:
    assert library.takes("double", "out")
    assert library.takes("double", "x")
    assert not library.takes("double", "scale")


class Versions:
    """A library whose operator has some arguments, and returns its output if none of them is for it."""

    def __init__(self, *arguments: str) -> None:
        self.arguments, self.given = arguments, {}  # type: ignore[var-annotated]

    def takes(self, operator: str, argument: str) -> bool:
        return operator == "mix" and argument in self.arguments

    def mix(self, **given: Any) -> torch.Tensor | None:
        self.given = given
        if "out" in given:
            given["out"].copy_(given["x"])
            return None
        return given["x"] + 1


@pytest.mark.parametrize(
    ("arguments", "given", "result"),
    [(("out", "x", "method"), {"out", "x", "method"}, 3.0), (("x", "inplace"), {"x", "inplace"}, 4.0)],
)
def test_a_call_has_the_arguments_of_its_version(arguments: tuple[str, ...], given: set[str], result: float) -> None:
    made, out = Versions(*arguments), torch.zeros(1)
    versions.call(made, "mix", {"out": out, "x": torch.full((1,), 3.0), "inplace": False, "method": 0})
    assert set(made.given) == given
    assert out.item() == result
