"""The reports for vLLM's maintainers are what would be written from the patches, and from what runs printed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from layout import ROOT


def check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, root / ".ci" / "upstream_reports.py", "--check"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_each_page_is_what_would_be_written() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_patch_that_changed_makes_pages_stale(tmp_path: Path) -> None:
    root = tmp_path / "copy"
    ignored = shutil.ignore_patterns(".git", ".nox*", "dist", "__pycache__")
    shutil.copytree(ROOT, root, symlinks=True, ignore=ignored)
    place = next((root / "patches").glob("0075-*.patch"))
    text = place.read_text(encoding="utf-8")
    assert "zeros" in text
    place.write_text(text.replace("zeros", "naughts"), encoding="utf-8")
    done = check(root)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "not as they would be written: attention-nan-of-a-neighbour.md" in done.stdout + done.stderr
