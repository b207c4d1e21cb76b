"""The reports for upstream: each fault that a patch fixes has one, and each page is made of its sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from upstream_runs import NOT_HERE, cell, clean, judge, judge_one
from upstream_sources import (
    MACHINES,
    MOST_LINES,
    OUTPUTS,
    PAGES,
    WHEELS,
    Report,
    load_json,
    load_open,
    load_reports,
    machine_of,
)

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.patch_series import load_series
from cpuwheels.core.process import signal_name
from layout import ROOT

SERIES = tuple(patch for patch in load_series(ROOT).patches if patch.source == "vllm")
REPORTS = load_reports()
FIXED = {(fault, machine_of(patch)) for patch in SERIES for fault in patch.fixes}
NEWEST = str(load_matrix(ROOT / "matrix.yaml").default_source)
MENDED = FIXED - {
    (fault, machine_of(patch)) for patch in SERIES if patch.is_for(NEWEST, machine_of(patch)) for fault in patch.fixes
}
"""Faults that the default release no longer has."""
OPEN = {(one["fault"], one["machine"]) for one in load_open()}
FINDINGS = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
ABSENT = {"schemas-of-what-is-written", "awq-without-avx512", "shm-without-avx512"}
"""Those of operators that are missing, or of schemas, which show on any version."""
each_report = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.slug)


def text(report: Report, name: str) -> str:
    return (report.folder / name).read_text(encoding="utf-8")


def test_each_fixed_fault_has_a_report_or_a_reason() -> None:
    reported = {(report.fault, report.machine) for report in REPORTS}
    assert reported | OPEN == FIXED
    assert not reported & OPEN
    assert len(OPEN - MENDED) <= 2, "the list may only become shorter"


def test_a_fault_that_upstream_mended_has_no_report() -> None:
    assert {(one["fault"], one["machine"]) for one in load_open() if "has the fix" in one["reason"]} == MENDED


def test_each_patch_is_on_a_page_or_has_a_reason() -> None:
    shown = {patch.file.removesuffix(".patch") for report in REPORTS for patch in report.patches(SERIES)}
    fixing = {patch.file.removesuffix(".patch") for patch in SERIES if set(patch.fixes) - {fault for fault, _ in OPEN}}
    assert fixing - shown == set(re.findall(r"`([^`]+)`", str([one["files"] for one in load_open("patch")])))


def test_each_report_has_a_page() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == {"README.md", *(f"{report.slug}.md" for report in REPORTS)}


@each_report
def test_its_names_exist(report: Report) -> None:
    assert f"## {report.fault}\n" in FINDINGS or f"| {report.fault} |" in FINDINGS
    assert report.machine in MACHINES
    target = load_matrix(ROOT).target(report.machine)
    assert set(report.libraries) <= {library.upstream for library in target.libraries}
    assert set(report.run_on) <= {library.name for library in target.libraries}
    assert report.slug in load_json(OUTPUTS) or report.features
    assert report.unpatched == "exit 1" or report.unpatched in map(signal_name, range(1, 32))


@each_report
def test_its_reproducer_is_short(report: Report) -> None:
    lines = [line for line in text(report, "reproduce.py").splitlines() if line.strip()]
    assert len(lines) <= MOST_LINES
    assert not re.search(r"^\s*(?:import|from) vllm", text(report, "reproduce.py"), re.MULTILINE)


@each_report
def test_its_test_is_in_upstreams_layout(report: Report) -> None:
    test = text(report, "test_upstream.py")
    assert re.match(r"# tests/(?:\w+/)+test_\w+\.py\n", test)
    assert re.search(r"^def test_\w+\(", test, re.MULTILINE)


@each_report
def test_its_page_shows_its_sources(report: Report) -> None:
    page = (PAGES / f"{report.slug}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {report.title}\n")
    assert text(report, "reproduce.py").rstrip() in page
    assert text(report, "test_upstream.py").partition("\n")[2].strip() in page
    assert all(patch.file.removesuffix(".patch") in page for patch in report.patches(SERIES))
    assert re.search(r"^@@ -\d+,\d+ \+\d+,\d+ @@", page, re.MULTILINE)


@each_report
def test_its_page_claims_what_was_run(report: Report) -> None:
    page = (PAGES / f"{report.slug}.md").read_text(encoding="utf-8")
    ran = load_json(OUTPUTS).get(report.slug)
    assert ("\nRun on: " in page) == (ran is not None)
    if ran:
        assert judge(report, ran) == []
        assert set(ran["libraries"]) == set(report.run_on)


@pytest.mark.parametrize("path", [OUTPUTS, WHEELS], ids=lambda path: path.stem)
def test_no_output_shows_the_machine(path: Path) -> None:
    kept = load_json(path)
    assert kept
    for key, entry in kept.items():
        assert not re.search(r"0x[0-9a-f]{6,}|/tmp|/root|/home", str(entry)), key


@pytest.mark.parametrize("wheel", load_json(WHEELS))
def test_each_reproducer_shows_on_a_wheel_what_its_page_says(wheel: str) -> None:
    """A release that a page calls affected shows the fault, and no other release does."""
    kept = load_json(WHEELS)[wheel]
    assert set(kept["results"]) == {report.slug for report in REPORTS if report.machine == "x86"}
    for report in REPORTS:
        if report.machine == "x86":
            found = kept["results"][report.slug]
            assert set(found) == set(report.libraries)
            assert judge_one(report, found, kept["version"]) == []


@each_report
def test_its_reproducer_says_where_there_is_no_fault_to_show(report: Report) -> None:
    reproducer = text(report, "reproduce.py")
    if report.machine == "x86" and report.slug not in ABSENT:
        assert f"raise SystemExit({NOT_HERE.removeprefix('exit ')})" in reproducer
        assert re.search(r'print\("not in this version', reproducer)


def test_outputs_are_those_of_reports() -> None:
    assert set(load_json(OUTPUTS)) <= {report.slug for report in REPORTS}


def test_an_output_is_cleaned() -> None:
    output = "what(): no kernel at /a/b/c.cpp\nframe #0: x + 0x12 (0x7f0012345678)\n\nheld at 0x7f0012345678\n"
    assert clean(output) == "what(): no kernel at ...\nheld at 0x..."


@pytest.mark.parametrize(
    ("unpatched", "patched", "test", "count"),
    [
        ("exit 1", "exit 0", {"unpatched": "failed", "patched": "passed"}, 0),
        ("exit 0", "exit 0", {"unpatched": "failed", "patched": "passed"}, 1),
        ("SIGSEGV", "exit 1", {"unpatched": "SIGSEGV", "patched": "passed"}, 2),
        ("exit 1", "exit 0", {"unpatched": "passed", "patched": "passed"}, 1),
        ("exit 1", "exit 0", {"unpatched": "failed", "patched": "skipped"}, 1),
        (NOT_HERE, "exit 0", {"unpatched": "failed", "patched": "passed"}, 1),
    ],
)
def test_an_outcome_is_judged(unpatched: str, patched: str, test: dict[str, str], count: int) -> None:
    report = Report("a", "A", "Fault", "", "", "exit 1", ("_C",))
    both = {"unpatched": {"outcome": unpatched, "output": ""}, "patched": {"outcome": patched, "output": ""}}
    assert len(judge(report, {"libraries": {"_C": both}, "test": test})) == count


def test_an_exception_is_no_fault_that_shows() -> None:
    report = Report("a", "A", "Fault", "", "", "exit 1", ("_C",))
    raised = {"outcome": "exit 1", "output": "Traceback (most recent call last):\nRuntimeError: 18 argument(s)"}
    both = {"unpatched": raised, "patched": {"outcome": "exit 0", "output": ""}}
    assert len(judge(report, {"libraries": {"_C": both}, "test": {"unpatched": "failed", "patched": "passed"}})) == 1
    assert cell(report, {"_C": raised}) == "an exception"


@pytest.mark.parametrize(
    ("outcome", "output", "shown", "affected", "others"),
    [
        ("exit 1", "nan", "shown", 0, 1),
        ("exit 0", "0.731", "right", 1, 0),
        (NOT_HERE, "not in this version or library: the_operator", "not in this version", 1, 0),
        (NOT_HERE, "not on this CPU, which torch refuses", "not on this CPU", 0, 1),
        (NOT_HERE, "", "no reason", 1, 1),
        ("exit 1", "Traceback (most recent call last):", "an exception", 1, 1),
        ("SIGSEGV", "", "SIGSEGV", 1, 1),
    ],
)
def test_an_outcome_on_one_wheel_is_judged(outcome: str, output: str, shown: str, affected: int, others: int) -> None:
    report = next(one for one in REPORTS if one.slug == "attention-softcap-overflow")
    found = {"_C": {"outcome": outcome, "output": output}}
    assert cell(report, found) == shown
    assert len(judge_one(report, found, "0.32.0")) == affected
    assert len(judge_one(report, found, "0.27.0")) == others


def test_libraries_that_end_differently_are_told_apart() -> None:
    report = Report("a", "A", "Fault", "", "", "SIGFPE", ("_C", "_C_AVX512", "_C_AVX2"))
    crash, absent = {"outcome": "SIGFPE", "output": ""}, {"outcome": NOT_HERE, "output": "not in this version: f"}
    found = {"_C": crash, "_C_AVX512": crash, "_C_AVX2": absent}
    assert cell(report, found) == "shown (`_C`, `_C_AVX512`); not in this version (`_C_AVX2`)"
