"""What a worker sends is put in place only if it is the wheel that was asked for, as it left that machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.core.errors import FarmError
from cpuwheels.farm.done import Done, with_files
from cpuwheels.farm.intake import take_in
from cpuwheels.farm.perform import perform
from farms import jobs_for, site_in


@pytest.fixture
def sent(tmp_path: Path) -> Done:
    (job,) = jobs_for("a")
    done = perform(job, site_in(tmp_path / "worker", "one", carries=True))
    assert done.code == 0, done.output
    assert done.content
    return done


def test_it_is_put_in_place(sent: Done, tmp_path: Path) -> None:
    (job,) = jobs_for("a")
    wheel = take_in(job, sent, tmp_path / "dist")
    assert wheel == tmp_path / "dist" / sent.folder / sent.wheel
    assert wheel.with_name("record.json").is_file()
    assert take_in(job, sent, tmp_path / "dist") == wheel, "once more is no fault"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"folder": "../x86/1"}, "it names the folder"),
        ({"folder": "arm/1"}, "it names the folder 'arm/1'"),
        ({"folder": "x86/.hidden"}, "it names the folder"),
        ({"folder": "x86/a/b"}, "it names the folder"),
        ({"sha256": "0" * 64}, "other files than named"),
    ],
)
def test_what_does_not_belong_there_is_refused(sent: Done, tmp_path: Path, change: dict[str, str], says: str) -> None:
    (job,) = jobs_for("a")
    with pytest.raises(FarmError, match=says):
        take_in(job, replace(sent, **change), tmp_path / "dist")  # type: ignore[arg-type]
    assert not list((tmp_path / "dist").rglob("*.whl"))


def test_a_record_about_another_wheel_is_refused(sent: Done, tmp_path: Path) -> None:
    (job,) = jobs_for("a")
    folder = tmp_path / "other"
    take_in(job, sent, folder)
    output = folder / sent.folder
    record = json.loads((output / "record.json").read_text())
    record["wheel"]["sha256"] = "0" * 64
    (output / "record.json").write_text(json.dumps(record))
    with pytest.raises(FarmError, match="is not taken"):
        take_in(job, with_files(sent, output), tmp_path / "dist")
    assert not list((tmp_path / "dist").rglob("*.whl"))
