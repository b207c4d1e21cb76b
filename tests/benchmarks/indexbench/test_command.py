"""The benchmark of the wheel index, at a small size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from indexbench.command import TARGETS, fill, main

from cpuwheels.index.bucket import Folder
from cpuwheels.index.check import check_index


def test_the_index_that_it_fills_is_as_publishing_would_leave_it(tmp_path: Path) -> None:
    fill(Folder(tmp_path), 130)
    faults = check_index(Folder(tmp_path))
    # It has pages only: no wheels, and no pointers to the newest.
    assert {fault.what.rpartition(" is missing")[0].rpartition(".")[2] for fault in faults} == {"whl", "json"}
    assert not [fault for fault in faults if "does not say" in fault.what]


def test_it_tells_times_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--commits", "70", "--wheels", "4", "--work", str(tmp_path)])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    result = json.loads(text[text.index("{") : text.index("}") + 1])
    assert (result["commits"], result["targets"], result["wheels"]) == (70, len(TARGETS), 4)
    assert 0 < result["median_seconds"] <= result["longest_seconds"]
    assert 8 < result["files_written_at_most"] < 25
    assert "met" in text
