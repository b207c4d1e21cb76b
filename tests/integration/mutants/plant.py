"""Plants the faults of upstream.toml in upstream's files: the variable MUTANT chooses one when they run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent / "upstream.toml"


def upstream_faults() -> dict[str, dict[str, Any]]:
    """Return the faults by name."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def plant(sources: Path, folder: Path) -> None:
    """Write the files with all faults in them to a folder.

    Args:
        sources: Upstream's ``csrc/cpu``.
        folder: Where they go; it exists.

    Raises:
        ValueError: A file has not what is to be replaced.
    """
    texts: dict[str, list[tuple[int, int, str]]] = {}
    for name, entry in upstream_faults().items():
        texts.setdefault(entry["file"], []).append(_edit((sources / entry["file"]).read_text("utf-8"), name, entry))
    for file, edits in texts.items():
        (folder / file).write_text(_edited((sources / file).read_text("utf-8"), edits), "utf-8")


def _edit(text: str, name: str, entry: dict[str, Any]) -> tuple[int, int, str]:
    """Return where something is replaced, and by what; ``{}`` is what stands there."""
    start = -1
    for _ in range(entry.get("which", 1)):
        start = text.find(entry["right"], start + 1)
        if start < 0:
            raise ValueError(f"{entry['file']} has not {entry['right']!r} as often as {name!r} needs it")
    return start, start + len(entry["right"]), f'(fault("{name}") ? ({entry["wrong"]}) : ({{}}))'


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    """Replace from the end; where two faults are in one place, the longer expression holds the shorter one."""
    found = sorted(edits, key=lambda edit: (edit[1] - edit[0], edit[0]))
    done: list[tuple[int, int, str]] = []
    for start, end, form in found:
        inner = [each for each in done if start <= each[0] and each[1] <= end]
        part, shift = text[start:end], start
        for first, last, inside in sorted(inner, reverse=True):
            part = part[: first - shift] + inside + part[last - shift :]
        done = [each for each in done if each not in inner]
        done.append((start, end, form.replace("{}", part)))
    for start, end, inside in sorted(done, reverse=True):
        text = text[:start] + inside + text[end:]
    return text
