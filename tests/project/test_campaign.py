"""The campaign of attacks and faults: each class has the cases that its list promises, and the page counts them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from reliability import PAGE, Outcome, outcomes, render

from campaign import CampaignClass, case_of, faults, load_classes
from layout import ROOT

CLASSES = load_classes()


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """pytest's names of all cases."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/campaign"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode in {0, 5}, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_the_classes_are_those_of_the_review() -> None:
    assert sum(each.cases for each in CLASSES) == 332
    assert len(CLASSES) == 12


def test_each_class_has_its_cases(collected: list[str]) -> None:
    assert faults(CLASSES, collected) == []


def test_the_page_counts_the_cases_that_there_are(collected: list[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for each in CLASSES:
        count = sum(1 for test in collected if (case := case_of(test)) and case[0] == each.name)
        assert f"| {each.about} | {each.holds} | {each.cases} | {count} |" in page


def test_each_promise_names_the_classes_that_show_it_and_each_class_shows_one() -> None:
    titles = {each.about.partition(":")[0] for each in CLASSES}
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    promises = re.findall(r"^\| .* \| .* \| (.*) \|$", text.partition("## What is promised")[2], re.MULTILINE)
    promises += re.findall(r"Shown by: (.*)\.", text)
    left = [re.sub("|".join(sorted(titles, key=len, reverse=True)), "", promise) for promise in promises]
    assert [each for each in left if each.replace(",", "").strip() not in {"", "shown by"}] == []
    assert [title for title in sorted(titles) if not any(title in promise for promise in promises)] == []


@pytest.mark.parametrize(
    ("test", "case"),
    [
        ("tests/campaign/archives/test_deb.py::test_07_link", ("archives", 7)),
        ("tests/campaign/archives/test_deb.py::test_reads[12-a-link]", ("archives", 12)),
        ("tests/campaign/archives/test_deb.py::test_reads[tar-12-a-link]", None),
        ("tests/campaign/archives/test_deb.py::test_link", None),
        ("tests/unit/test_deb.py::test_07_link", None),
    ],
)
def test_a_case_is_known_by_its_number(test: str, case: tuple[str, int] | None) -> None:
    assert case_of(test) == case


def test_wrong_numbers_are_told() -> None:
    classes = (CampaignClass("a", "", "", 3), CampaignClass("b", "", "", 1, 1), CampaignClass("c", "", "", 1))
    file = "tests/campaign/{}/test_x.py::test_{}"
    tests = [file.format("a", "01_x"), file.format("a", "03_x"), file.format("a", "y[3-z]"), file.format("a", "z")]
    assert faults(classes, [*tests, file.format("d", "01_x")]) == [
        "tests/campaign/a/test_x.py::test_z has no number",
        "tests/campaign/d/test_x.py::test_01_x: classes.toml has no d",
        "a has number 3 twice",
        "a lacks number 2",
        "a has 2 of 3 cases: its `open` is to be 1",
        "c has 0 of 1 cases: its `open` is to be 1",
    ]


def test_the_page_is_made_from_reports(tmp_path: Path) -> None:
    cases = (
        '<testcase classname="tests.campaign.a.test_x" name="test_01_x"/>'
        '<testcase classname="tests.campaign.a.test_x" name="test_y[02-z]"><failure>no</failure></testcase>'
        '<testcase classname="tests.campaign.a.test_x" name="test_y[03-z]"><skipped/></testcase>'
        '<testcase classname="tests.unit.test_x" name="test_01_x"/>'
    )
    (tmp_path / "unit-campaign.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    found = outcomes(tmp_path)
    assert found == [
        Outcome("a", 1, "passed", "nox -s tests"),
        Outcome("a", 2, "failed", "nox -s tests"),
        Outcome("a", 3, "skipped", "nox -s tests"),
    ]
    text = render([CampaignClass("a", "About", "holds", 4, 1)], found, "of today")
    assert "| About | holds | 4 | 3 | 1 | `nox -s tests` |" in text
    assert "of today" in text
