"""A build record read back is what was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.core.errors import WheelError
from cpuwheels.pipeline.recorded_build import read_operators, read_record
from ledger_records import RECORDS
from recorded_wheel import FLAGS, MEMORY, write_build


def test_what_was_written(tmp_path: Path) -> None:
    wheel = write_build(tmp_path, notes=("a note",))
    record = read_record(tmp_path)
    assert (record.wheel.file, record.target, record.notes, record.logs) == (wheel.name, "x86", ("a note",), "../logs")
    assert record.memory == MEMORY
    assert record.compilers is not None
    assert record.compilers.flags == FLAGS
    assert {job.output for job in record.files} == {job.output for job in RECORDS}
    operators = read_operators(tmp_path)
    assert operators is not None
    assert [one.name for one in operators.libraries[0].operators] == ["_C::scale", "_C::gelu"]


def test_a_later_version_may_write_more(tmp_path: Path) -> None:
    write_build(tmp_path)
    record = json.loads((tmp_path / "record.json").read_text())
    record["wheel"]["new"] = record["new"] = 1
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert read_record(tmp_path).wheel.sha256 == record["wheel"]["sha256"]


def test_one_that_readers_would_read_differently_is_refused(tmp_path: Path) -> None:
    write_build(tmp_path)
    path = tmp_path / "record.json"
    path.write_text(path.read_text().replace("{", '{"target": "arm",', 1))
    with pytest.raises(WheelError, match="is not a build record") as raised:
        read_record(tmp_path)
    assert "there twice" in raised.value.output


def test_what_cannot_be_read_is_an_error_with_its_reason(tmp_path: Path) -> None:
    assert read_operators(tmp_path) is None
    with pytest.raises(WheelError, match="No such file"):
        read_record(tmp_path)
    (tmp_path / "operators.json").write_text("[]")
    with pytest.raises(WheelError, match="not a list of operators"):
        read_operators(tmp_path)
