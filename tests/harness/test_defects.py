"""Known faults of kernels, and the tables that belong to the cases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.specifiers import SpecifierSet

from harness import defects, library
from harness.case import Case
from harness.defects import Build, Defect, DefectsError, known_defect
from harness.formats import FLOATS
from harness.selection import cases_for, families


@pytest.fixture(autouse=True)
def _read_again() -> Iterator[None]:
    defects.defects.cache_clear()
    yield
    defects.defects.cache_clear()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "defects.toml"
    monkeypatch.setattr(defects, "PLACE", path)
    return path


def case(name: str) -> Case:
    return Case(("double",), name, "", lambda *_: None, {})  # type: ignore[arg-type,return-value]


def made(cases: tuple[str, ...], **changes: Any) -> Defect:
    values = {"name": "Wrong", "libraries": ("*",), "needs": (), "without": (), "reason": "it is"}
    about = {"versions": SpecifierSet(), "onednn": None, "symptom": re.compile(".")}
    return Defect(cases=cases, **values | about | changes)


def found(name: str, library: str = "_C") -> str | None:
    known = known_defect(case(name), library)
    return known.name if known else None


def test_brackets_are_part_of_the_name(place: Path) -> None:
    place.write_text('["Wrong"]\ncases = ["double[float16-*]"]\nsymptom = "."\nreason = "it is"\n')
    assert found("double[float16-3]") == "Wrong"
    assert found("double[float32-3]") is None
    # As a set of characters, it would match one of them behind the name.
    assert found("doublef") is None
    assert found("double") is None


def test_only_named_libraries_have_it(place: Path) -> None:
    place.write_text('["Wrong"]\ncases = ["double"]\nlibraries = ["_C", "_C_AVX?"]\nsymptom = "."\nreason = "it is"\n')
    assert [found("double", library) for library in ("_C", "_C_AVX2", "_C_AVX512")] == ["Wrong", "Wrong", None]


def test_all_libraries_have_it_if_none_is_named(place: Path) -> None:
    place.write_text('["Wrong"]\ncases = ["other", "double"]\nsymptom = "."\nreason = " it is\\n"\n')
    known = known_defect(case("double"), "_C_AVX512")
    assert known is not None
    assert known.reason == "it is"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('cases = ["double"]', "needs cases, a symptom and a reason"),
        ('cases = ["double"]\nsymptom = "."\nreason = " "', "needs cases, a symptom and a reason"),
        ('symptom = "."\nreason = "it is"', "needs cases, a symptom and a reason"),
        ('cases = []\nsymptom = "."\nreason = "it is"', "needs cases, a symptom and a reason"),
        ('cases = ["double"]\nreason = "it is"', "needs cases, a symptom and a reason"),
        ('cases = ["double"]\nreason = "it is"\nlibrary = ["_C"]', "unknown library"),
    ],
)
def test_refuses_entries_that_say_nothing(place: Path, entry: str, problem: str) -> None:
    place.write_text(f"[Wrong]\n{entry}\n")
    with pytest.raises(DefectsError, match=rf"Wrong:? {problem}"):
        defects.defects()


def test_the_entries_of_the_suite_mean_something() -> None:
    assert all(entry.cases and entry.reason for entry in defects.defects())


def test_each_entry_has_cases() -> None:
    names = {each.name for each in all_cases()}
    for defect in defects.defects():
        for pattern in defect.cases:
            one = made((pattern,))
            assert any(one.shows_in(name, "_C") for name in names), f"{defect.name}: no case is {pattern}"


@pytest.mark.parametrize(
    ("features", "shown"),
    [
        ({"avx2": True}, True),
        ({"avx2": True, "avx512_vnni": False, "avx_vnni": False}, True),
        ({"avx512_vnni": True, "avx_vnni": False}, False),
        ({"avx512_vnni": False, "avx_vnni": True}, False),
    ],
)
def test_a_cpu_with_a_feature_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, features: dict[str, bool], shown: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features)
    defect = made(("mm[*]",), libraries=("_C_AVX2",), without=("avx512_vnni", "avx_vnni"))
    assert defect.shows_in("mm[2x2]", "_C_AVX2") is shown
    assert not defect.shows_in("mm[2x2]", "_C")
    assert not defect.shows_in("other[2x2]", "_C_AVX2")


@pytest.mark.parametrize(("there", "shown"), [(True, True), (False, False), (None, False)])
def test_only_a_cpu_with_all_of_its_features_shows_it(
    monkeypatch: pytest.MonkeyPatch, there: bool | None, shown: bool
) -> None:
    features = {"avx2": True} | ({} if there is None else {"avx512_fp16": there})
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features)
    assert made(("*",), needs=("avx2", "avx512_fp16")).shows_in("a", "_C") is shown


@pytest.mark.parametrize("variable", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
@pytest.mark.parametrize(
    ("has", "permitted", "limit", "shown"),
    [
        (True, True, "", True),
        (True, True, "DEFAULT", True),
        (True, True, "AVX512_CORE_AMX", True),
        (True, True, "AVX10_1_512_AMX", True),
        (True, True, "no name that oneDNN knows sets a limit", True),
        (True, True, "AVX512_CORE_FP16", False),
        (True, True, "avx2", False),
        (True, False, "", False),
        (False, True, "", False),
    ],
)
def test_a_fault_of_onednn_with_amx_shows_where_onednn_uses_amx(
    monkeypatch: pytest.MonkeyPatch, has: bool, permitted: bool, limit: str, shown: bool, variable: str
) -> None:
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, limit)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": has})
    monkeypatch.setattr(torch.cpu, "_init_amx", lambda: permitted)
    assert made(("*",), needs=("onednn:amx_bf16",)).shows_in("a", "_C") is shown


@pytest.mark.parametrize(
    ("build", "shown"),
    [
        (Build(), True),
        (Build("0.33.0+cpu"), True),
        (Build("0.33.1.dev5+gabc.cpu"), True),
        (Build("0.32.0+cpu"), False),
        (Build("0.33.0+cpu", frozenset({"Another"})), True),
        (Build("0.33.0+cpu", frozenset({"Wrong"})), False),
    ],
)
def test_only_builds_that_have_it_show_it(place: Path, build: Build, shown: bool) -> None:
    place.write_text('["Wrong"]\ncases = ["double"]\nsymptom = "."\nversions = ">=0.33"\nreason = "it is"\n')
    assert (known_defect(case("double"), "_C", build) is not None) is shown


@pytest.mark.parametrize(("onednn", "shown"), [("3.7.2", True), ("3.11.4", True), ("3.12.0", False), ("", False)])
def test_a_fault_of_onednn_is_that_of_its_releases(place: Path, onednn: str, *, shown: bool) -> None:
    place.write_text('["Wrong"]\ncases = ["double"]\nsymptom = "."\nonednn = "<3.12"\nreason = "it is"\n')
    assert (known_defect(case("double"), "_C", Build("0.33.0+cpu", onednn=onednn)) is not None) is shown


@pytest.mark.parametrize(
    ("problems", "explained"),
    [([], True), (["out: 1 is wrong"], True), (["out: 1", "SIGSEGV"], True), (["out: 1", "state: 2"], False)],
)
def test_another_problem_is_another_fault(place: Path, problems: list[str], explained: bool) -> None:
    place.write_text('["Wrong"]\ncases = ["double"]\nsymptom = "^out: |SIGSEGV"\nreason = "it is"\n')
    assert (known_defect(case("double"), "_C", problems=problems) is not None) is explained


def all_cases() -> list[Case]:
    return cases_for({operator for family in families() for operator in family.operators}, "full")


def test_the_smoke_level_is_part_of_the_full_one() -> None:
    operators = {operator for family in families() for operator in family.operators}
    full = {each.name for each in all_cases()}
    smoke = {each.name for each in cases_for(operators, "smoke")}
    assert smoke < full
    assert {each.function for each in cases_for(operators, "smoke")} == {each.function for each in all_cases()}


def test_the_tables_name_what_there_is() -> None:
    operators = {operator for family in families() for operator in family.operators}
    assert set(library._unmarked()) <= operators
    assert all(text.strip() for written in library._unmarked().values() for text in written.values())
    for name in ("_C", "_C_AVX512", "_C_AVX2"):
        known = library._known(name)
        assert set(known) <= {"cut_off", "fault"}
        assert set(known.get("cut_off", [])) <= set(FLOATS)
