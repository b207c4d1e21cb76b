"""Run a program in the foreground and leave its end to itself."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def run(command: Sequence[str], folder: Path) -> int:
    """Run a program to its end and return its exit code; Ctrl-C reaches it too, and it ends tidily."""
    process = subprocess.Popen(command, cwd=folder)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
