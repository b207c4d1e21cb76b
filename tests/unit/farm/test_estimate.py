"""What jobs are expected to take."""

from __future__ import annotations

import shutil
from pathlib import Path

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.paths import Paths
from cpuwheels.farm.estimate import GUESSES, estimates
from cpuwheels.kernels.memory.costs import read_costs
from cpuwheels.kernels.memory.limits import usable_cpus
from layout import ROOT

GIB = 1 << 30


def test_measured_files_then_what_was_learned_then_what_jobs_took(tmp_path: Path) -> None:
    matrix = load_matrix(ROOT)
    root = tmp_path / "project"
    shutil.copytree(ROOT / "measured", root / "measured")
    paths = Paths(root, tmp_path / "cache", tmp_path / "dist")
    costs = read_costs(root / "measured" / "x86.tsv")
    found = estimates(paths, matrix, {})
    assert found.seconds("kernels", "x86") == sum(cost.seconds for cost in costs.values()) / usable_cpus().count
    assert found.memory("x86") == max(cost.bytes for cost in costs.values())
    assert found.seconds("parity", "x86") == GUESSES["parity"]
    assert (found.seconds("kernels", "none"), found.seconds("wheel", "x86")) == (GUESSES["kernels"], GUESSES["wheel"])

    learned = paths.cache / "measured" / "x86.tsv"
    learned.parent.mkdir(parents=True)
    learned.write_text(f"7.00\t{30 * GIB}\tnew.o\n")
    more = estimates(paths, matrix, {})
    assert more.memory("x86") == 30 * GIB
    assert more.seconds("kernels", "x86") > found.seconds("kernels", "x86")

    known = {("kernels", "x86"): [900.0, 1.0, 2.0, 3.0, 4.0, 5.0]}
    assert estimates(paths, matrix, known).seconds("kernels", "x86") == 3.0, "the median of the latest"


def test_without_any_measured_file_the_matrix_tells_the_memory(tmp_path: Path) -> None:
    matrix = load_matrix(ROOT)
    found = estimates(Paths(tmp_path, tmp_path / "cache", tmp_path / "dist"), matrix, {})
    assert found.memory("x86") == matrix.target("x86").worst_peak
    assert found.seconds("kernels", "x86") == GUESSES["kernels"]
