"""Finished kernels, and what lies with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.result import Kernels
from ledger_records import job

if TYPE_CHECKING:
    from pathlib import Path

MEMORY = MemoryUse(2, 8 << 30, "physical memory", 7 << 30, "a group", 3 << 30)
READS = Reads(files=("csrc/a.cpp",), folders=("csrc",))


def test_the_debug_folder_is_there_only_when_asked_for(tmp_path: Path) -> None:
    kernels = Kernels("key", tmp_path, ("_C",), (), built=True, memory=MEMORY, reads=READS)
    assert kernels.debug_folder is None
    (tmp_path / "debug").mkdir()
    assert kernels.debug_folder == tmp_path / "debug"


def test_a_library_that_no_job_linked_was_kept(tmp_path: Path) -> None:
    jobs = (job("_C.abi3.so", 0, 1), job("/build/liblinked.so", 1, 1))
    kernels = Kernels("key", tmp_path, ("_C",), jobs, built=True, memory=MEMORY, reads=READS)
    assert kernels.kept_libraries == ()
    (tmp_path / "libraries").mkdir()
    for name in ("liblinked.so", "libkept.so"):
        (tmp_path / "libraries" / name).touch()
    assert kernels.kept_libraries == ("libkept.so",)
