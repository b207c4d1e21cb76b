"""Reports of sanitizers: each is read once, whichever process wrote it, and other text is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.sanitizers import Reports

PARITY = Path(__file__).parents[1] / "parity"
FIRST = "a.cpp:1:2: runtime error: so it is\n"
SECOND = "==2==ERROR: AddressSanitizer: heap-buffer-overflow\n"


def test_each_report_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    reports = Reports(path)
    assert reports.new() == ""
    path.write_text(FIRST)
    assert reports.new() == FIRST
    assert reports.new() == ""
    with path.open("a") as stream:
        stream.write("a warning of somebody else's\n")
    assert reports.new() == ""
    with path.open("a") as stream:
        stream.write(SECOND)
    assert reports.new() == SECOND
    assert reports.read == path.stat().st_size
    assert Reports(path).new() == ""  # what an earlier process left


def test_standard_error_of_this_process_and_its_children_is_redirected(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from harness.sanitizers import Reports\n"
        "reports = Reports(Path(sys.argv[1])); reports.redirect()\n"
        f"os.write(2, {FIRST.encode()!r})\n"
        f"pid = os.fork()\nif not pid: os.write(2, {SECOND.encode()!r}); os._exit(0)\n"
        "os.waitpid(pid, 0); print(reports.new(), end='')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "reports")]
    env = os.environ | {"PYTHONPATH": str(PARITY)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (FIRST + SECOND, "")


def test_without_a_file_there_are_none() -> None:
    reports = Reports(None)
    reports.redirect()
    assert (reports.new(), reports.read) == ("", 0)
