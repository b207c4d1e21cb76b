"""Wheels that a farm made and tested: which ones are left to the publisher, and what is said of the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from attested_wheels import attested_wheel
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CpuwheelsError, FarmError, ParityError
from cpuwheels.index.bucket import Folder
from cpuwheels.index.nightly.builder import FarmBuilder
from cpuwheels.index.nightly.plan import Job

JOB = Job(f"{1:040x}", "x86", "2026-11-22T10:00:00Z")


class Night:
    """What came home of one wheel."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel
        self.errors: list[CpuwheelsError] = []

    def take(self, job: Job, output: Path) -> Path:
        assert job == JOB
        place = output / "x86" / "0.32.0"
        shutil.copytree(self.wheel.parent, place)
        return place / self.wheel.name

    def failures(self, job: Job) -> list[CpuwheelsError]:
        assert job == JOB
        return self.errors


@pytest.fixture
def night(tmp_path: Path) -> Night:
    return Night(attested_wheel(tmp_path / "came"))


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The wheels whose requirements were resolved here."""
    found: list[Path] = []
    monkeypatch.setattr("cpuwheels.pipeline.lock_wheel.lock_wheel", lambda *given: found.append(given[3]))
    return found


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    """The project's own, of which no kernels are timed."""
    found = load_matrix(project_root)
    return found.model_copy(update={"nightly": found.nightly.model_copy(update={"speed_rounds": 0})})


@pytest.fixture
def builder(tmp_path: Path, night: Night, matrix: Matrix, reporter: Reporter) -> FarmBuilder:
    paths = Paths(tmp_path, tmp_path / "cache", tmp_path / "nightly")
    index = Folder(tmp_path / "index")
    return FarmBuilder(paths, matrix, index, BuildOptions(), "smoke", reporter, None, night=night)  # type: ignore[arg-type]


def test_a_wheel_that_came_home_is_left_to_the_publisher(
    builder: FarmBuilder, night: Night, locked: list[Path], tmp_path: Path
) -> None:
    made = builder.make(JOB)
    ready = tmp_path / "nightly" / "ready" / f"x86-{JOB.source}"
    assert (made.wheel, made.state) == (night.wheel.name, "built")
    assert (ready / made.wheel).read_bytes() == night.wheel.read_bytes()
    assert [path.name for path in locked] == [made.wheel]
    assert [path.name for path in (tmp_path / "nightly").iterdir()] == ["ready"]


def test_one_whose_test_failed_is_kept_and_the_publisher_is_told(
    builder: FarmBuilder, night: Night, locked: list[Path], tmp_path: Path
) -> None:
    night.errors = [ParityError("scale is wrong")]
    with pytest.raises(ParityError) as raised:
        builder.make(JOB)
    kept = Path(builder.keep(JOB, raised.value))
    assert (kept / "x86" / "0.32.0" / night.wheel.name).is_file()
    failure = json.loads((tmp_path / "nightly" / "ready" / f"x86-{JOB.source}" / "failure.json").read_text())
    assert (failure["state"], failure["reason"]) == ("wrong", "scale is wrong")
    assert locked == []


def test_what_is_wrong_with_a_farm_is_not_said_of_a_commit(
    builder: FarmBuilder, night: Night, locked: list[Path], tmp_path: Path
) -> None:
    night.errors = [FarmError("worker-1 has another version of cpuwheels")]
    with pytest.raises(FarmError) as raised:
        builder.make(JOB)
    kept = Path(builder.keep(JOB, raised.value))
    assert "another version" in (kept / "why.txt").read_text()
    assert not (tmp_path / "nightly" / "ready").exists()
    assert locked == []
