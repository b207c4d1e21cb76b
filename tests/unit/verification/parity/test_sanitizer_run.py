"""What starts Python with the run times of sanitizers, and what these have reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.kernels.sanitizers import SANITIZERS
from cpuwheels.verification.parity.sanitizer_run import SanitizerRun, unread

RUN = SanitizerRun(Path("/rt"), SANITIZERS["address"])
LIBRARIES = "/rt/usr/lib/x86_64-linux-gnu/libasan.so.8:/rt/usr/lib/x86_64-linux-gnu/libubsan.so.1"


def test_a_dynamic_loader_gets_the_run_times_as_its_option() -> None:
    loader: list[str | Path] = [Path("/root/ld.so"), "--inhibit-cache", Path("/root/python")]
    assert RUN.command(loader) == [Path("/root/ld.so"), "--preload", LIBRARIES, "--inhibit-cache", Path("/root/python")]


def test_a_program_gets_them_as_a_variable_of_its_own() -> None:
    assert RUN.command([Path("/venv/python")]) == ["/usr/bin/env", f"LD_PRELOAD={LIBRARIES}", Path("/venv/python")]


@pytest.mark.parametrize("name", SANITIZERS)
def test_every_run_time_goes_on_and_none_writes_a_file_of_its_own(name: str) -> None:
    env = SanitizerRun(Path("/rt"), SANITIZERS[name]).environment
    told = {key: options.split(":") for key, options in env.items() if key.endswith("SAN_OPTIONS")}
    assert told
    for options in told.values():
        assert "halt_on_error=0" in options
        assert not any(option.startswith("log_path") for option in options)


def test_only_what_is_new_is_read_and_no_link_is_followed(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    assert unread(reports, 0) == ""
    reports.write_text("old\nnew\n")
    assert unread(reports, 4) == "new\n"
    assert unread(reports, 8) == ""
    (tmp_path / "link").symlink_to(reports)
    assert unread(tmp_path / "link", 0) == ""
