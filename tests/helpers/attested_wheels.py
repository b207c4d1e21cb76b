"""A wheel of a commit as a build leaves it, with its record and its provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commit_wheels import wheel as commit_wheel
from recorded_wheel import write_build

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def attested_wheel(folder: Path, number: int = 1, target: str = "x86", asked: Mapping[str, Any] | None = None) -> Path:
    """Write the wheel and what belongs to it, and return the wheel.

    Args:
        folder: Of everything.
        number: Of the commit.
        target: Target id.
        asked: What its record says that was asked for, if something else.
    """
    made = commit_wheel(folder, number, target)
    version = made.name.split("-")[1]
    given = {"source": f"{number:040x}", "target": target, **(asked or {})}
    return write_build(made.parent, there=made, version=version, target=target, asked=given)
