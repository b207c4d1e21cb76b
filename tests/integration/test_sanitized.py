"""Faults that only sanitizers see, planted in the stand-in's kernel: the whole command names them."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiny_project import Tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CASES = '''\
"""The stand-in's operator that multiplies."""

import torch

from harness.case import Call, cases
from harness.expected import Exact


@cases("scale", dtype=[torch.float32], count=[64])
def scale(library, draw, *, dtype, count):
    x = draw.guarded(draw.normal((count,), dtype))
    return Call(lambda: {"out": library.scale(x, 2.0)}, lambda: {"out": Exact(x * 2)})
'''

LOOP = "#pragma omp parallel for\n"
BESIDE = "volatile float beside = source[count];"
"""In the guard of the case's tensor."""
BEYOND = "volatile float beyond = target[count];"
"""Behind what the kernel has allocated itself."""
SHIFT = "volatile int wide = 1 << (32 + static_cast<int>(count));"
RACE = "for (int64_t i = 0; i < count; ++i) sum = sum + source[i];"


@pytest.fixture(scope="module")
def project(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The stand-in's project with a case of one operator."""
    base = tmp_path_factory.mktemp("sanitized")
    root = shutil.copytree(tiny.root, base / "project")
    (root / "tests" / "parity" / "cases" / "stand_in.py").write_text(CASES)
    return replace(tiny, root=root, dist=base / "dist")


def check(
    project: Tiny, sanitize: str, tree: Path, out: Path
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Return how a run on the operator ended, and its report."""
    options = [
        "--sanitize",
        sanitize,
        "--level",
        "smoke",
        "--threads",
        "4",
        "--operator",
        "scale",
        "--source",
        tree,
        "--out",
        out,
    ]
    done = project.run("parity", "x86", *options)
    assert (out / "parity.json").is_file(), done.stderr
    return done, json.loads((out / "parity.json").read_text())


def line_of(text: str, source: str) -> int:
    return source.partition(text)[0].count("\n") + 1


def planted(project: Tiny, folder: Path, lines: str) -> tuple[Path, str]:
    """Return a source whose kernel has more lines before its loop, and the kernel's text."""
    tree = project.changed_tree(folder)
    kernel = tree / "csrc" / "cpu" / "ops.cpp"
    text = kernel.read_text()
    assert text.count(LOOP) == 1
    text = text.replace(LOOP, lines + LOOP)
    kernel.write_text(text)
    return tree, text


def test_what_is_planted_is_found_and_named(project: Tiny, tmp_path: Path) -> None:
    tree, text = planted(project, tmp_path / "planted", f"  {BESIDE}\n  {BEYOND}\n  {SHIFT}\n")
    done, report = check(project, "address", tree, tmp_path / "out")
    assert done.returncode == 34, done.stderr
    # The stand-in's other library registers its operators elsewhere.
    (case,) = report["libraries"][0]["cases"]
    assert (case["verdict"], case["operators"]) == ("failed", ["scale"])
    found = {(finding["kind"], finding["place"]): finding for finding in case["findings"]}
    beyond = found["heap-buffer-overflow", f"csrc/cpu/ops.cpp:{line_of(BEYOND, text)}"]
    assert beyond["what"] == "READ of size 4 located 0 bytes after 256-byte region"
    assert "scale" in beyond["function"]
    beside = found["use-after-poison", f"csrc/cpu/ops.cpp:{line_of(BESIDE, text)}"]
    assert beside["what"].startswith("READ of size 4 ")
    shift = found["undefined-behavior", f"csrc/cpu/ops.cpp:{line_of(SHIFT, text)}"]
    assert shift["what"] == "shift exponent 96 is too large for 32-bit type 'int'"
    assert len(found) == 3
    assert f"csrc/cpu/ops.cpp:{line_of(BEYOND, text)}" in done.stdout
    assert "Found by sanitizers" in (tmp_path / "out" / "parity.html").read_text()
    assert list(project.dist.rglob("*.whl")) == []


def test_a_race_of_openmp_threads_is_found_and_named(project: Tiny, tmp_path: Path) -> None:
    tree, text = planted(project, tmp_path / "race", f"  static volatile float sum;\n{LOOP}  {RACE}\n")
    done, report = check(project, "thread", tree, tmp_path / "out")
    assert done.returncode == 34, done.stderr
    (case,) = report["libraries"][0]["cases"]
    assert case["verdict"] == "failed"
    place = f"csrc/cpu/ops.cpp:{line_of(RACE, text)}"
    assert {(finding["kind"], finding["place"]) for finding in case["findings"]} == {("data race", place)}
    assert all(f"of size 4 at {place}" in finding["what"] for finding in case["findings"])


@pytest.mark.parametrize("sanitize", ["address", "thread"])
def test_without_a_fault_the_same_operator_passes(project: Tiny, tmp_path: Path, sanitize: str) -> None:
    done, report = check(project, sanitize, project.changed_tree(tmp_path / "sound"), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    cases = [case for library in report["libraries"] for case in library["cases"]]
    assert [(case["verdict"], case["findings"]) for case in cases] == [("passed", [])]
