"""The benchmark on the tiny stand-in: every mode but parity, an interruption, and going on after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from buildbench.modes import MODES
from buildbench.results import (
    EDIT,
    EDIT_OPEN,
    EDIT_UNSTEERED,
    NOOP,
    OPEN,
    OURS,
    PYTHON,
    PYTHON_OPEN,
    UNSTEERED,
    UPSTREAM,
    Results,
    read_results,
)
from buildbench.targets import verdicts

from layout import ROOT
from tiny_project import Tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

BENCH = ROOT / "benchmarks" / "bench.py"
KERNEL = "csrc/cpu/ops.cpp"
CAP = "1500M"
TRIED = [mode for mode in MODES if mode != "parity"]
"""The tiny project's operators have no oracle, so its parity tests would fail; test_sides.py has how they are run."""


def command(tiny: Tiny, results: Path, *arguments: str) -> list[str]:
    places = ("--root", tiny.root, "--work", tiny.cache / "bench", "--json", results)
    return [str(part) for part in (sys.executable, BENCH, *arguments, *places, "--kernel", KERNEL)]


def start(tiny: Tiny, results: Path, *arguments: str) -> subprocess.Popen[str]:
    env = os.environ | {"CPUWHEELS_CACHE": str(tiny.cache)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command(tiny, results, *arguments), env=env, text=True, stdout=pipe, stderr=pipe)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=1500)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def interrupted(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a cold run that was ended while our side was built."""
    path = tmp_path_factory.mktemp("bench") / "results.json"
    process = start(tiny, path, "cold", "edit")
    while not path.is_file():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    time.sleep(2)
    members = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    code, _, err = finished(process)
    assert code == 130, err
    assert "--resume" in err
    assert members
    assert psutil.wait_procs(members, timeout=30)[1] == []
    return path


@pytest.fixture(scope="module")
def whole(tiny: Tiny, interrupted: Path) -> tuple[Results, Results, str, str]:
    """The results before and after the interrupted run was gone on with, in each mode of `TRIED`, and what was said."""
    before = read_results(interrupted)
    code, out, err = finished(start(tiny, interrupted, *TRIED, "--resume", "--memory", CAP))
    assert code == 0, err
    return before, read_results(interrupted), out, err


def test_an_interrupted_run_keeps_what_is_done(whole: tuple[Results, Results, str, str]) -> None:
    before, after, _, _ = whole
    assert list(before.runs) == [UNSTEERED]
    assert after.runs[UNSTEERED] == before.runs[UNSTEERED]
    small = {EDIT_UNSTEERED, EDIT, PYTHON, NOOP, EDIT_OPEN, PYTHON_OPEN}
    assert set(after.runs) >= {OURS, OPEN, UPSTREAM, f"caps/{CAP}"} | small


def test_one_side_is_confined_and_the_other_is_not(whole: tuple[Results, Results, str, str]) -> None:
    _, results, out, _ = whole
    for key in (OPEN, EDIT_OPEN, PYTHON_OPEN):
        assert results.runs[key][0].sandbox == "not sandboxed"
    for key in (OURS, EDIT, PYTHON):
        assert results.runs[key][0].sandbox not in {"", "not sandboxed"}
    assert "cold: CPU seconds, of the same without a sandbox" in out


def test_both_sides_build_the_same_modules(whole: tuple[Results, Results, str, str]) -> None:
    _, results, _, _ = whole
    sizes = results.sizes
    assert set(sizes.unsteered) == {"_C", "_C_AVX2", "spinloop"}
    assert set(sizes.ours) == set(sizes.unsteered) | {"libcpuwheels_dnnl"}
    assert all(sizes.stripped[name] < sizes.unsteered[name] for name in sizes.unsteered)
    assert sizes.wheel is not None
    assert sizes.wheel < sum(sizes.ours.values())


def test_every_figure_is_measured(whole: tuple[Results, Results, str, str]) -> None:
    _, results, _, _ = whole
    unsteered, ours = results.runs[UNSTEERED][0], results.runs[OURS][0]
    for run in (unsteered, ours):
        # Two files of torch's headers: tens of seconds and hundreds of megabytes.
        assert 0.5 * run.cpu < run.jobs_cpu <= run.cpu
        assert run.kernels is not None
        assert 0 < run.kernels <= run.wall
        assert run.jobs > 5
        assert run.largest_job > 200 << 20
        assert run.peak > 0.8 * run.largest_job
    assert ours.gate_peak is not None
    assert {"source", "kernels", "wheel"} <= set(ours.stages)
    assert set(unsteered.stages) == {"configure", "build"}


def test_a_change_costs_less_than_everything(whole: tuple[Results, Results, str, str]) -> None:
    _, results, _, _ = whole
    cold, edit = results.runs[UNSTEERED][0], results.runs[EDIT_UNSTEERED][0]
    assert 0 < edit.jobs < cold.jobs
    assert results.runs[EDIT][0].jobs > 0
    assert results.runs[PYTHON][0].jobs == 0
    assert "wheel" in results.runs[PYTHON][0].stages
    noop = results.runs[NOOP][0]
    assert (noop.jobs, noop.stages) == (0, {})
    assert noop.wall < results.runs[PYTHON][0].wall < results.runs[OURS][0].wall


def test_a_cap_is_measured_from_nothing(whole: tuple[Results, Results, str, str]) -> None:
    _, results, _, _ = whole
    run = results.runs[f"caps/{CAP}"][0]
    assert run.cap == 1500 << 20
    assert run.jobs == results.runs[OURS][0].jobs
    assert run.peak <= run.cap
    assert run.held


def test_the_output_has_every_part(whole: tuple[Results, Results, str, str], interrupted: Path) -> None:
    _, results, out, err = whole
    for part in ("Cold build:", "One C++ file edited:", "Size:", "Memory caps:", "| wheel | ", "≤ 0.25"):
        assert part in out
    for verdict in verdicts(results):
        assert verdict.what in out
    assert "18 runs" in err
    assert interrupted.with_suffix(".svg").read_text().startswith("<?xml")
    assert interrupted.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_nothing_is_run_twice_and_missed_targets_are_for_require(
    tiny: Tiny, whole: tuple[Results, Results, str, str], interrupted: Path
) -> None:
    _, results, _, _ = whole
    arguments = (*TRIED, "--resume", "--require", "--memory", CAP)
    code, out, err = finished(start(tiny, interrupted, *arguments))
    assert "nothing to run" in err
    assert read_results(interrupted) == results
    assert code == int(any(verdict.met is False for verdict in verdicts(results)))
    met = json.loads(interrupted.read_text())
    met["sizes"]["wheel"] = 40_000_000
    interrupted.write_text(json.dumps(met))
    code, out, _ = finished(start(tiny, interrupted, *arguments))
    assert code == 1
    assert "| wheel | 40.00 MB | ≤ 15.0 MB | MISSED |" in out


def test_results_of_something_else_are_not_gone_on_with(
    tiny: Tiny, whole: tuple[Results, Results, str, str], tmp_path: Path
) -> None:
    _, results, _, _ = whole
    other = results.model_copy(update={"subject": results.subject.model_copy(update={"compiler": "GNU 99"})})
    path = tmp_path / "other.json"
    path.write_text(other.model_dump_json())
    code, _, err = finished(start(tiny, path, "noop", "--resume"))
    assert code == 2
    assert "GNU 99, now" in err


def test_a_build_that_fails_is_said_with_its_log(tiny: Tiny, whole: object, tmp_path: Path) -> None:
    assert whole
    tree = tiny.changed_tree(tmp_path / "broken", ops="int broken( {\n")
    code, _, err = finished(start(tiny, tmp_path / "broken.json", "cold", "--source", str(tree)))
    assert code == 33
    assert "ops.cpp" in err
    assert "cold-unsteered-1.log" in err
    assert not (tmp_path / "broken.json").exists()
