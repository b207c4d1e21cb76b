"""The table of releases in docs/parity.md is made from the results of their wheels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from parity_table import END, PAGE, START, main, table, with_table

from cpuwheels.config.matrix import load_matrix
from cpuwheels.verification.parity.results import Parity
from layout import ROOT


def case(verdict: str) -> dict[str, object]:
    name = f"rms_norm[{verdict}]"
    numbers = {"ratio": 0.5, "error": 0.1, "limit": 0.2, "seconds": 0.1}
    return {"name": name, "operators": ["rms_norm"], "dtype": "", "verdict": verdict, **numbers}


def result(version: str, verdicts: list[str], *, untested: tuple[str, ...] = ()) -> dict[str, object]:
    names = {"operators": ["rms_norm"], "registered": ["rms_norm"], "waived": {}, "untested": untested}
    library = {"name": "_C", "cases": [case(verdict) for verdict in verdicts], "seed": 1, "seconds": 1.0, **names}
    return {
        "wheel": f"vllm-{version}.whl", "sha256": "0" * 64, "version": version, "torch": "2.13.0", "machine": "CPU",
        "emulated": False, "threads": 1, "level": "smoke", "only": [], "fixed_faults": ["a", "b"], "seed": 1,
        "began": "2026-11-25T21:00:00+00:00", "seconds": 1.0, "not_run": {},
        "libraries": [library, {**library, "name": "_C_AVX2"}],
    }  # fmt: skip


def test_each_library_has_a_row_and_old_releases_come_first() -> None:
    results = [result("0.10.0", ["passed"]), result("0.9.0", ["passed", "known", "failed"], untested=("silu",))]
    rows = table([Parity.model_validate(one) for one in results]).splitlines()[2:]
    assert rows == [
        "| 0.9.0 | 2 | 2.13.0, CPU, 2026-11-25 | `_C` | 1 | smoke | 3 | 1 | 2 |",
        "|  | |  | `_C_AVX2` | 1 | smoke | 3 | 1 | 2 |",
        "| 0.10.0 | 2 | 2.13.0, CPU, 2026-11-25 | `_C` | 1 | smoke | 1 | 0 | 0 |",
        "|  | |  | `_C_AVX2` | 1 | smoke | 1 | 0 | 0 |",
    ]


def test_only_what_is_between_the_markers_changes() -> None:
    assert with_table(f"a\n{START}\nold\n{END}\nb\n", "new") == f"a\n{START}\nnew\n{END}\nb\n"
    with pytest.raises(SystemExit, match="no place"):
        with_table(f"a\n{START}\nold\n", "new")


def test_it_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, found = tmp_path / "parity.md", tmp_path / "parity.json"
    page.write_text(f"# Parity\n\n{START}\n{END}\n")
    found.write_text(json.dumps(result("0.9.0", ["passed"])))
    monkeypatch.setattr("parity_table.PAGE", page)
    main([str(found)])
    assert "| 0.9.0 | 2 |" in page.read_text()


def rows_of(page: str) -> list[tuple[str, int]]:
    """Return the version, which only the first library's row has, and the number of wrong results of each row."""
    rows = re.findall(r"^\| *([\d.]*)[^|\n]*\|(?:[^|\n]*\|){7} (\d+) \|$", page, re.MULTILINE)
    return [(version, int(wrong)) for version, wrong in rows]


def test_the_rows_of_a_table_are_found() -> None:
    found = table([Parity.model_validate(result("0.9.0+cpu", ["failed", "passed"]))])
    assert rows_of(found) == [("0.9.0", 1), ("", 1)]


def test_the_page_lists_pinned_releases_that_have_nothing_wrong() -> None:
    text = PAGE.read_text()
    assert text.count(START) == text.count(END) == 1
    rows = rows_of(text)
    assert {version for version, _ in rows} <= {one.version for one in load_matrix(ROOT).releases} | {""}
    assert [row for row in rows if row[1]] == []
