"""Bisections of a repository made of vLLM's own sources, with faults planted in a kernel and in a Python file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bisectbench.checks import SCRIPTS
from bisectbench.history import History, make_history

from cpuwheels.core.store import default_root
from cpuwheels.source.request import request_source
from layout import ROOT
from tiny_project import Tiny

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

RELEASE = "0.32.0"
COMMITS = 9


@pytest.fixture(scope="module")
def history(this: BuildContext, tmp_path_factory: pytest.TempPathFactory) -> History:
    tree = request_source(RELEASE, None, this.matrix).get(this.store, this.reporter).folder
    folder = tmp_path_factory.mktemp("history") / "vllm"
    return make_history(folder, {RELEASE: tree}, between=COMMITS, kernels_every=COMMITS + 1)


def bisected(history: History, out: Path, *judge: str) -> dict:
    """Bisect as a user does, with the stores that people use."""
    project = Tiny(ROOT, history.folder, out.parent / "dist", default_root())
    done = project.run("bisect", "--repo", history.folder, "--good", RELEASE, "--bad", "main", "--out", out, *judge)
    assert done.returncode == 0, done.stderr
    result: dict = json.loads((out / "result.json").read_text())
    return result


def test_a_fault_in_a_python_file_is_found_without_a_compiler(history: History, tmp_path: Path) -> None:
    check = tmp_path / "check.py"
    check.write_text(SCRIPTS["python"])
    result = bisected(history, tmp_path / "out", "--run", f"python {shlex.quote(str(check))}", "--no-requirements")
    assert result["first_bad"] == history.first_bad["python"]
    assert result["suspects"][0]["files"] == ["vllm/utils/math_utils.py"]
    assert sum(probe["wheel_from"] == "build" for probe in result["probes"]) <= 2  # the two kinds of kernels


def test_a_fault_in_a_kernel_is_found_by_its_parity(history: History, tmp_path: Path) -> None:
    result = bisected(history, tmp_path / "out", "--parity", "rms_norm")
    assert result["first_bad"] == history.first_bad["kernel"]
    assert result["suspects"][0]["files"] == ["csrc/cpu/layernorm.cpp"]
    wrong = [probe["reason"] for probe in result["probes"] if probe["verdict"] == "bad"]
    assert all("cases are wrong" in reason for reason in wrong)
    assert sum(probe["wheel_from"] == "build" for probe in result["probes"]) <= 2  # the two kinds of kernels
