"""Wrong cases in groups."""

from __future__ import annotations

from cpuwheels.verification.parity.failures import failures
from cpuwheels.verification.parity.html import parity_page
from sample_results import case, library, parity


def test_what_has_one_cause_is_one_group() -> None:
    wrong = [
        case(f"attention[{number}]", 3.0, dtype="float16", problem=f"element {number}: {number / 7:.3g} is too far")
        for number in range(1, 81)
    ]
    other = case("attention[81]", None, dtype="float16", problem="it gave nan, inf and -1e-05")
    same = case("attention[82]", None, dtype="float16", problem="it gave 1.5, 3 and inf")
    bf16 = case("attention[83]", 3.0, dtype="bfloat16", problem="element 1: 1 is too far")
    right = case("attention[84]", 0.1, dtype="float16")
    found = failures(parity(library("_C", *wrong, right), library("_C_AVX2", wrong[0], other, same, bf16)))
    assert [(one.dtype, len(one.cases), one.libraries) for one in found] == [
        ("float16", 81, ["_C", "_C_AVX2"]),
        ("float16", 2, ["_C_AVX2"]),
        ("bfloat16", 1, ["_C_AVX2"]),
    ]
    assert found[0].operators == ("attention",)
    assert found[0].cases[0][1].name == "attention[1]"


def test_other_verdicts_are_other_groups() -> None:
    crashed = case("a[1]", None, problem="it ended").model_copy(update={"verdict": "crashed"})
    found = failures(parity(library("_C", crashed, case("a[2]", None, problem="it ended"))))
    assert [one.verdict for one in found] == ["crashed", "failed"]
    assert failures(parity(library("_C", case("a[1]")))) == []


def test_the_page_has_a_line_for_a_group_and_all_its_cases() -> None:
    wrong = [case(f"attention[{number}]", 3.0, problem=f"<off> by {number}") for number in range(5)]
    page = parity_page(parity(library("_C", *wrong)))
    assert "<h3>attention, float32: 5 cases failed on _C</h3>" in page
    assert "<summary>4 more</summary>" in page
    assert page.count("&lt;off&gt; by ") == 5
    assert parity_page(parity(library("_C", wrong[0]))).count("more</summary>") == 0
