"""What the parity cases say of upstream's faults, and docs/findings.md: each has the other."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from layout import ROOT

TABLES = ROOT / "tests" / "parity"
FINDINGS = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
HEADINGS = set(re.findall(r"^##+ (.+)$", FINDINGS, re.MULTILINE))
MACHINES = {name: FINDINGS.partition(f"\n## {name}\n")[2].partition("\n## ")[0] for name in ("IBM Z", "Arm")}
"""Sections on faults that one machine has, and that patches fix."""
SHARED = "".join(re.split(r"^## (?:IBM Z|Arm)\n(?:(?!^## ).*\n)*", FINDINGS, flags=re.MULTILINE))
ROWS = set(re.findall(r"^\| ([^|`]+?) \|", SHARED, re.MULTILINE)) - {"finding", "operator"}


def table(name: str) -> dict[str, Any]:
    with (TABLES / name).open("rb") as stream:
        return tomllib.load(stream)


DEFECTS = table("defects.toml")


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_a_finding(name: str) -> None:
    assert name in HEADINGS | ROWS


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defects_cases_are_named(name: str) -> None:
    functions = {pattern.partition("[")[0] for pattern in DEFECTS[name]["cases"]}
    section = FINDINGS.partition(f"## {name}\n")[2].partition("\n## ")[0] if name in HEADINGS else row(name)
    missing = {function for function in functions if f"`{function}`" not in section}
    assert not missing or all(function.endswith("_odd_stride") for function in missing)


def row(name: str) -> str:
    return next(line for line in FINDINGS.splitlines() if line.startswith(f"| {name} |"))


def test_each_row_is_a_defect() -> None:
    assert ROWS & set(DEFECTS) == ROWS


def test_patches_that_are_named_are_there() -> None:
    named = re.findall(r"`(\d{4}-[a-z0-9-]+)`", FINDINGS)
    assert named
    assert not [name for name in named if not (ROOT / "patches" / f"{name}.patch").is_file()]


@pytest.mark.parametrize("machine", MACHINES)
def test_each_fault_of_a_machine_names_its_patch(machine: str) -> None:
    rows = [line for line in MACHINES[machine].splitlines() if line.startswith("| ") and "what is wrong" not in line]
    assert rows
    for line in rows:
        patch = re.search(r"`(\d{4}-[a-z0-9-]+)` \|$", line)
        assert (
            (ROOT / "patches" / f"{patch[1]}.patch").is_file() if patch else line.endswith("| none: cases accept it |")
        )


def test_what_libraries_have_is_a_finding() -> None:
    assert {known["fault"] for known in table("libraries.toml").values()} <= HEADINGS


@pytest.mark.parametrize("name", ["libraries.toml", "schemas.toml"])
def test_other_tables_name_headings(name: str) -> None:
    text = (TABLES / name).read_text(encoding="utf-8")
    named = re.findall(r'docs/findings\.md, "([^"]+)"', text)
    assert named
    assert set(named) <= HEADINGS


def test_each_unmarked_argument_is_named() -> None:
    section = FINDINGS.partition("## Schemas that do not say what is written\n")[2].partition("\n## ")[0]
    for operator, arguments in table("schemas.toml").items():
        line = next(line for line in section.splitlines() if line.startswith(f"| `{operator}` |"))
        assert all(f"`{argument}`" in line for argument in arguments)
