"""A wheel of a commit as a build leaves it, with its record and its provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commit_wheels import wheel as commit_wheel
from recorded_wheel import DEPENDENCIES, write_build

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.downloads import Download


def attested_wheel(
    folder: Path,
    number: int = 1,
    target: str = "x86",
    asked: Mapping[str, Any] | None = None,
    dependencies: Sequence[Download] = DEPENDENCIES,
) -> Path:
    """Write the wheel and what belongs to it, and return the wheel.

    Args:
        folder: Of everything.
        number: Of the commit.
        target: Target id.
        asked: What its record says that was asked for, if something else.
        dependencies: What its record says that was used.
    """
    made = commit_wheel(folder, number, target)
    version = made.name.split("-")[1]
    given = {"source": f"{number:040x}", "target": target, **(asked or {})}
    return write_build(made.parent, there=made, version=version, target=target, asked=given, dependencies=dependencies)
