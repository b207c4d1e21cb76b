"""The commands that install vLLM in the documentation."""

from __future__ import annotations

import re
from pathlib import Path


def documented(root: Path) -> list[str]:
    """Return them as they are shown, each once."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    command = re.compile(r"^\s*((?:uv )?pip install .*\bvllm.*)$", re.MULTILINE)
    return sorted({found for page in pages for found in command.findall(page.read_text())})
