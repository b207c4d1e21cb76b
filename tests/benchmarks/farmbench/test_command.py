"""The command: results, tables at any width, the drawing, and that docs/farm.md has what it finds."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from farmbench.command import main
from farmbench.plot import draw
from farmbench.results import Results
from farmbench.table import about, as_markdown, print_results, size_rows, verdicts
from rich.console import Console

from layout import ROOT
from sample_source import dated_commit, write_tree


def run(memgate: Path, folder: Path, *words: str, code: int = 0) -> Results:
    path = folder / "farm.json"
    with pytest.raises(SystemExit) as ended:
        main([*words, "--memgate", str(memgate), "--json", str(path)])
    assert ended.value.code == code
    return Results.model_validate_json(path.read_bytes())


@pytest.fixture(scope="module")
def found(memgate: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What docs/farm.md has, without the sizes for other loads and machines."""
    return run(memgate, tmp_path_factory.mktemp("farm"), "--no-sizes")


def page() -> str:
    return (ROOT / "docs" / "farm.md").read_text(encoding="utf-8")


def test_the_page_has_the_figures_that_the_command_gives(found: Results) -> None:
    assert as_markdown(found) in page()
    for target, seconds in found.compile.items():
        assert f"{target} {seconds:.0f} s" in page()
    assert f"{found.smallest.farm.used.minutes_per_wheel * 60:.0f} seconds of a machine" in page()  # type: ignore[union-attr]


def test_the_page_has_the_sizes_that_the_command_gives(memgate: Path, tmp_path: Path) -> None:
    """Of the loads and machines of the page those that are quick; a row is a made week of so many commits."""
    for commits, part, cpus in ((70, 0.05, 16), (238, 0.05, 2), (240, 0.1, 4)):
        made = ["--made", str(commits), "--kernels", str(part), "--cpus", str(cpus), "--machines", "16"]
        results = run(memgate, tmp_path, *made, "--no-sizes")
        (row,) = size_rows([results.smallest], results.week.days)
        assert f"| {' | '.join(row)} |" in page()


def test_the_page_has_what_tests_add(memgate: Path, tmp_path: Path) -> None:
    results = run(memgate, tmp_path, "--no-sizes", "--parity", "smoke", "--machines", "8")
    assert results.smallest.farm is not None
    assert f"it takes {results.smallest.farm.machines} machines" in page()
    assert results.level == "smoke"
    assert "test:macos" not in results.can


def test_the_drawing_of_the_page_is_what_would_be_drawn(found: Results, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw(found, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "two.svg").read_bytes()
    kept = (ROOT / "docs" / "images" / "farm.svg").read_text(encoding="utf-8")
    lines = [re.findall(r'<path d="(M [^"]+)"[^>]*clip-path', text) for text in (kept, drawn.decode())]
    assert lines[0] == lines[1] != []


def test_the_limits_of_the_issue_hold_where_the_page_says_so(found: Results) -> None:
    assert all(farm.batch and farm.batch.ratio <= 1.15 for farm in found.farms)
    assert all(farm.delays.within == 1 for farm in found.farms)


def test_where_every_number_comes_from_is_in_the_results(found: Results) -> None:
    assert set(found.measured) == set(found.targets)
    assert all("Measured 2026-" in text for text in found.measured.values())
    assert all(one.source for one in found.inputs.values())
    assert len(found.commit.rstrip("+")) == 40
    assert (found.week.name, found.week.seed) == ("a made week", 1)


def test_require_fails_where_a_batch_is_far_from_its_bound(memgate: Path, tmp_path: Path) -> None:
    slow = ["--set", "kernels-bytes=4e9"]  # half a minute for each machine that gets them
    run(memgate, tmp_path, "--no-sizes", "--machines", "32", "--require", *slow, code=1)
    run(memgate, tmp_path, "--no-sizes", "--machines", "2", "--require")
    assert run(memgate, tmp_path, "--no-sizes", "--machines", "1", "--within", "1").smallest.farm is None


def test_given_numbers_and_a_price_are_used(memgate: Path, tmp_path: Path) -> None:
    words = ["--no-sizes", "--machines", "1", "--made", "20", "--set", "wheel=100", "--price", "2"]
    results = run(memgate, tmp_path, *words, "--targets", "x86,macos", "--able", "build:macos=0.25")
    assert (results.inputs["wheel"].value, results.inputs["wheel"].source) == (100, "given")
    assert results.farms[0].delays.median > 100
    assert (results.targets, results.can["build:macos"]) == (("x86", "macos"), 0.25)
    assert any("at 2 for a machine and hour: 336.00 for the whole time" in line for line in verdicts(results))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "speed=3"], "there is no number 'speed'"),
        (["--set", "wheel=-1"], "not a name and a number"),
        (["--machines", "1,0"], "not a list of whole numbers"),
        (["--memory", "much"], "not a size"),
        (["--targets", "vax"], "no ready target vax"),
        (["--memory", "1G"], "the largest compilation of"),
        (["--made", "0"], "are no week"),
        (["--repo", "/nowhere"], "is not a git repository"),
    ],
)
def test_bad_input_is_an_error_that_names_it(
    memgate: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--memgate", str(memgate)])
    assert ended.value.code not in {0, 1}
    assert message in capsys.readouterr().err


def test_a_week_of_a_clone(memgate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPUWHEELS_CACHE", str(tmp_path / "cache"))
    tree = write_tree(tmp_path / "vllm")
    for day in (1, 2, 3):
        (tree / "csrc" / "cpu" / "ops.cpp").write_text(f"int one() {{ return {day}; }}\n")
        dated_commit(tree, f"2026-11-{day:02}T12:00:00+00:00")
    results = run(memgate, tmp_path, "--no-sizes", "--machines", "1,4", "--repo", str(tree), "--days", "1.5")
    assert (results.week.name, results.week.count, results.week.kernel_changes) == ("2 commits of main", 2, 2)
    assert results.week.seed is None
    assert results.smallest.weeks == 1
    assert [farm.used.compiled for farm in results.farms] == [8, 8]


@pytest.mark.parametrize("width", [60, 120])
def test_tables_fit_the_terminal_and_leave_nothing_out(found: Results, width: int) -> None:
    stream = io.StringIO()
    print_results(found, Console(file=stream, force_terminal=True, width=width, no_color=True, highlight=False))
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert max(len(line) for line in text.splitlines()) <= width
    words = " ".join(text.split())
    assert all(line in words for line in (*about(found)[:2], *verdicts(found)))
    assert all(f"{farm.batch.ratio:.2f}" in text for farm in found.farms if farm.batch)
