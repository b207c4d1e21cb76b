"""What was done before is known by its key, as long as it is still there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.digests import file_digest
from cpuwheels.farm.done import Done
from cpuwheels.farm.journal import FOLDER, Journal
from farms import jobs_for


@pytest.fixture
def done(tmp_path: Path) -> Done:
    wheel = tmp_path / "x86" / "1" / "a.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_text("wheel")
    wheel.with_name("record.json").write_text("{}")
    return Done("k", folder="x86/1", wheel="a.whl", sha256=file_digest(wheel), seconds=3.0, by="one", content=b"x")


def test_a_wheel(tmp_path: Path, done: Done) -> None:
    journal, (job,) = Journal(tmp_path), jobs_for("a")
    assert journal.find(job) is None
    journal.keep(job, done)
    found = journal.find(job)
    assert found is not None
    assert (found.key, found.folder, found.wheel, found.sha256, found.by) == (
        job.key,
        "x86/1",
        "a.whl",
        done.sha256,
        "one",
    )
    assert journal.find(jobs_for("b")[0]) is None
    (tmp_path / "x86" / "1" / "a.whl").write_text("else")
    assert journal.find(job) is None


def test_a_wheel_that_was_not_put_in_place_whole(tmp_path: Path, done: Done) -> None:
    """The record is written last: a command was killed before."""
    journal, (job,) = Journal(tmp_path), jobs_for("a")
    journal.keep(job, done)
    (tmp_path / "x86" / "1" / "record.json").unlink()
    assert journal.find(job) is None


def test_a_test_counts_as_long_as_its_report_is_there(tmp_path: Path, done: Done) -> None:
    journal, (_, parity) = Journal(tmp_path), jobs_for("a", level="smoke")
    journal.keep(parity, done)
    assert journal.find(parity) is None
    (tmp_path / "x86" / "1" / "parity.json").write_text("{}")
    assert journal.find(parity) is not None


def test_damage_counts_as_nothing(tmp_path: Path, done: Done) -> None:
    journal, (job,) = Journal(tmp_path), jobs_for("a")
    journal.keep(job, done)
    (tmp_path / FOLDER / f"{job.key}.json").write_text("{")
    assert journal.find(job) is None
    assert journal.seconds() == {}


def test_times_are_by_what_was_done(tmp_path: Path, done: Done) -> None:
    journal = Journal(tmp_path)
    kernels, wheel, parity = jobs_for("a", "b", level="smoke", kernels="k")[:3]
    (alone,) = jobs_for("c")
    for job in (kernels, wheel, parity, alone):
        journal.keep(job, done if job is not kernels else Done("k", kernels="x", seconds=9.0))
    assert {name: sorted(found) for name, found in journal.seconds().items()} == {
        ("kernels", "x86"): [3.0, 9.0],
        ("wheel", "x86"): [3.0],
        ("parity", "x86"): [3.0],
    }
    assert journal.find(kernels) is None, "kernels are in the stores, which know them"
