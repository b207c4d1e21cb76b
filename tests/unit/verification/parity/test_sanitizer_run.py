"""What starts Python with the run times of sanitizers, and what these have reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.kernels.sanitizers import SANITIZERS
from cpuwheels.verification.parity.sanitizer_run import SanitizerRun, new_folder, unread

RUN = SanitizerRun((Path("/rt/libasan.so.8"), Path("/rt/libubsan.so.1")), SANITIZERS["address"])


def test_a_dynamic_loader_gets_the_run_times_as_its_option() -> None:
    loader: list[str | Path] = [Path("/root/ld.so"), "--inhibit-cache", Path("/root/python")]
    libraries = "/rt/libasan.so.8:/rt/libubsan.so.1"
    assert RUN.command(loader) == [Path("/root/ld.so"), "--preload", libraries, "--inhibit-cache", Path("/root/python")]


def test_a_program_gets_them_as_a_variable_of_its_own() -> None:
    command = RUN.command([Path("/venv/python")])
    assert command == ["/usr/bin/env", "LD_PRELOAD=/rt/libasan.so.8:/rt/libubsan.so.1", Path("/venv/python")]


def test_every_run_time_reports_into_the_folder_and_goes_on() -> None:
    env = RUN.environment(Path("/work/reports"))
    assert env.keys() == {"ASAN_OPTIONS", "UBSAN_OPTIONS"}
    assert all(options.startswith("halt_on_error=0:") for options in env.values())
    files = [options.rpartition(":log_path=")[2] for options in env.values()]
    assert files == ["/work/reports/asan", "/work/reports/ubsan"]  # neither begins the other's file anew


def test_each_process_has_an_empty_folder(tmp_path: Path) -> None:
    first = new_folder(tmp_path, "_C", 0)
    assert new_folder(tmp_path, "_C", 1) != first
    with pytest.raises(FileExistsError):
        first.mkdir()


def test_only_what_is_new_is_read_and_no_link_is_followed(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "_C", 0)
    (folder / "report.2").write_text("old\nnew\n")
    (folder / "report.9").write_text("child\n")
    (tmp_path / "secret").write_text("secret\n")
    (folder / "report.1").symlink_to(tmp_path / "secret")
    assert unread(folder, {"report.2": 4}) == "new\nchild\n"
    assert unread(folder, {"report.2": 8, "report.9": 6}) == ""
