"""The reports for upstream: each fault that a patch fixes has one, and each page is made of its sources."""

from __future__ import annotations

import re

import pytest
import upstream_reports
from upstream_reports import MACHINES, MOST_LINES, PAGES, Report, clean, judge, load_open, load_outputs, load_reports

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.patch_series import load_series
from cpuwheels.core.process import signal_name
from layout import ROOT

SERIES = tuple(patch for patch in load_series(ROOT).patches if patch.source == "vllm")
REPORTS = load_reports()
FIXED = {(fault, upstream_reports.machine_of(patch)) for patch in SERIES for fault in patch.fixes}
OPEN = {(one["fault"], one["machine"]) for one in load_open()}
FINDINGS = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
each_report = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.slug)


def text(report: Report, name: str) -> str:
    return (report.folder / name).read_text(encoding="utf-8")


def test_each_fixed_fault_has_a_report_or_a_reason() -> None:
    reported = {(report.fault, report.machine) for report in REPORTS}
    assert reported | OPEN == FIXED
    assert not reported & OPEN
    assert len(OPEN) <= 2, "the list may only become shorter"


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
    assert report.not_run or report.tried or report.slug in load_outputs() or report.features
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
    ran = load_outputs().get(report.slug)
    assert ("\nRun on: " in page) == (ran is not None)
    if ran:
        assert judge(report, ran) == []
        assert set(ran["libraries"]) == set(report.run_on)


@pytest.mark.parametrize("slug", load_outputs())
def test_no_output_shows_the_machine(slug: str) -> None:
    shown = str(load_outputs()[slug])
    assert not re.search(r"0x[0-9a-f]{6,}|/tmp|/root|/home", shown)


def test_outputs_are_those_of_reports() -> None:
    assert set(load_outputs()) <= {report.slug for report in REPORTS}


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
    ],
)
def test_an_outcome_is_judged(unpatched: str, patched: str, test: dict[str, str], count: int) -> None:
    report = Report("a", "A", "Fault", "", "", "exit 1", ("_C",))
    both = {"unpatched": {"outcome": unpatched, "output": ""}, "patched": {"outcome": patched, "output": ""}}
    assert len(judge(report, {"libraries": {"_C": both}, "test": test})) == count
