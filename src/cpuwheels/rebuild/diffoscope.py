"""diffoscope, where this machine has it: its own text about two wheels, within limits; nothing depends on it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "diffoscope"
_SECONDS = 600.0
_MOST = 2 << 20
"""Bytes of its text."""
_DIFFERENT = 1
"""Its status if files differ (diffoscope(1))."""


def diffoscope(published: Path, rebuilt: Path, folder: Path) -> tuple[str, str]:
    """Return what diffoscope says of two files, and why it says nothing; one of them is empty.

    It runs programs of this machine, such as objdump, on what is in the wheels.

    Args:
        published: One file.
        rebuilt: The other one.
        folder: For its text and its temporary files.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        return "", f"{PROGRAM} is not on PATH"
    text, temporary = folder / "diffoscope.txt", folder / "diffoscope"
    temporary.mkdir(parents=True, exist_ok=True)
    limits = ["--max-report-size", str(_MOST), "--max-container-depth", "3", "--timeout", str(int(_SECONDS))]
    command = [program, "--text", str(text), "--no-progress", *limits, "--", str(published), str(rebuilt)]
    done = capture(command, env=closed_environment({"TMPDIR": str(temporary)}), timeout=_SECONDS + 60, both=True)
    if done.returncode not in {0, _DIFFERENT}:
        said = done.output.strip().splitlines() or [f"status {done.returncode}"]
        return "", f"{PROGRAM} failed: {said[-1]:.300}"
    try:
        return read_plain(text, 2 * _MOST).decode(errors="replace"), ""
    except OSError as error:
        return "", f"{PROGRAM} left no text: {error.strerror}"
