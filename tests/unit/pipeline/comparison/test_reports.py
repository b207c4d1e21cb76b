"""The comparison as a page, as JSON and on the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.cli import main
from cpuwheels.pipeline.comparison.compare import compare
from cpuwheels.pipeline.comparison.reports import comparison_table, size_delta, write_comparison
from cpuwheels.pipeline.comparison.result import Comparison
from cpuwheels.pipeline.comparison.side import read_side
from pseudo_terminal import WIDTHS, printed
from recorded_wheel import write_build
from small_wheels import write_wheel


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    write_build(tmp_path / "a", files={"gone<1>.py": "123"})
    write_build(tmp_path / "b", flags={"_C": ("-O2",)}, facts={"patches": [], "kernel_key": "other"})
    return compare(read_side(tmp_path / "a"), read_side(tmp_path / "b"))


def test_files_can_be_read_back(tmp_path: Path, comparison: Comparison) -> None:
    page, data = write_comparison(tmp_path / "out", comparison)
    assert Comparison.model_validate_json(data.read_text()) == comparison
    assert json.loads(data.read_text())["format"] == 1
    text = page.read_text()
    for words in ("gone&lt;1&gt;.py", "≠ Different", "-O3", 'scope="row"', '<main id="main"', "CPU time"):
        assert words in text
    assert "<script" not in text
    assert "http" not in text


def test_without_records_the_page_names_what_is_missing(tmp_path: Path) -> None:
    sides = [read_side(write_wheel(tmp_path / name, "vllm", "1")) for name in ("a", "b")]
    found = compare(*sides)
    page, _ = write_comparison(tmp_path, found)
    assert "= The same" in page.read_text()
    assert page.read_text().count("Not compared.") == 4


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_fits_the_terminal(comparison: Comparison, width: int) -> None:
    terminal = printed(comparison_table(comparison).print, width)
    assert max(map(len, terminal.lines)) <= width
    assert any(line.startswith("files") and "1 added, 1 removed" in line for line in terminal.rows)
    assert any(line.startswith("flags") and "_C +1 −2" in line for line in terminal.rows)  # noqa: RUF001


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, 5, "new"),
        (5, None, "gone"),
        (5, 5, "same size"),
        (1000, 1500, "+500 B (+50.0%)"),
        (1500, 1000, "−500 B (−33.3%)"),  # noqa: RUF001
        (0, 10, "+10 B"),
    ],
)
def test_changes_of_size(before: int | None, after: int | None, expected: str) -> None:
    assert size_delta(before, after) == expected


def run(*words: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(["compare", *words])
    return raised.value.code


def test_the_exit_code_is_that_of_diff(
    tmp_path: Path, comparison: Comparison, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not comparison.same
    assert run("a", "b") == 1
    assert (tmp_path / "b" / "comparison.json").is_file()
    captured = capsys.readouterr()
    assert "before vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl" in captured.out
    assert "reports: b/comparison.html, b/comparison.json" in captured.err
    assert run("a", "a", "--out", "out") == 0
    assert (tmp_path / "out" / "comparison.html").is_file()
    assert run("a", "nowhere.whl") == 35
    assert run("a", "out") == 2
