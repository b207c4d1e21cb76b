"""The two files of the report, of kernels that were compiled now or before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.core.errors import StoreError
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.report.write import write_report
from cpuwheels.kernels.result import Kernels
from ledger_records import RECORDS

MEMORY = MemoryUse(jobs=7, cap=1000, where="--memory 1000", room=800, how="a group", peak=540)
NOTE = "these kernels were in the store; this is the build that compiled them"


def kernels(folder: Path, *, built: bool) -> Kernels:
    return Kernels("key", folder, ("_C",), tuple(RECORDS), built, MEMORY, Reads(files=(), folders=()))


@pytest.mark.parametrize("built", [True, False])
def test_whose_build_it_was_is_on_the_page(tmp_path: Path, *, built: bool) -> None:
    write_report(tmp_path, kernels(tmp_path, built=built), "vLLM 1.0 for x86")
    page = (tmp_path / "report.html").read_text()
    assert (NOTE in page) is not built
    assert "vLLM 1.0 for x86" in page
    assert "csrc/cpu/a.cpp" in page


def test_the_cpus_are_those_of_that_build(tmp_path: Path) -> None:
    write_report(tmp_path, kernels(tmp_path, built=True), "title")
    assert "on 7 CPUs" in (tmp_path / "report.html").read_text()


def test_the_trace_has_every_job(tmp_path: Path) -> None:
    write_report(tmp_path, kernels(tmp_path, built=True), "title")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(RECORDS)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        write_report(tmp_path / "file", kernels(tmp_path, built=True), "title")
