"""What the parity cases say of upstream's faults, and docs/findings.md: each has the other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
TABLES = ROOT / "tests" / "parity"
FINDINGS = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
HEADINGS = set(re.findall(r"^##+ (.+)$", FINDINGS, re.MULTILINE))
ROWS = set(re.findall(r"^\| ([^|`]+?) \|", FINDINGS, re.MULTILINE)) - {"finding", "operator"}


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
