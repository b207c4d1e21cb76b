"""What names a job, and what has to be the same on each machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from cpuwheels.config.paths import Paths
from cpuwheels.farm.job import project_identity, second_opinion
from farms import jobs_for
from layout import ROOT


def test_the_identity_is_of_everything_that_results_depend_on(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for name in ("patches", "cmake", "csrc", "locks", "tests/parity"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copyfile(ROOT / "matrix.yaml", root / "matrix.yaml")
    paths = Paths(root, tmp_path / "cache", tmp_path / "dist")
    before = project_identity(paths)
    assert before == project_identity(Paths(ROOT, tmp_path / "other", tmp_path / "dist"))
    for name in ("patches/series.yaml", "locks/run.txt", "matrix.yaml", "tests/parity/conftest.py"):
        path = root / name
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        assert project_identity(paths) != before, name
        path.write_bytes(content)
    assert project_identity(paths) == before


def test_a_second_opinion_is_another_job_that_uses_nothing() -> None:
    _, job, _ = jobs_for("a", "b", kernels="k")
    again = second_opinion(job)
    assert again.key != job.key
    assert job.after
    assert not again.after
    assert again.alone
    assert second_opinion(again).key not in {job.key, again.key}
    assert (str(job), str(again)) == ("wheel x86 a", "wheel x86 a again")
