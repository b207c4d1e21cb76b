"""uv at work on virtual environments: interpreters of this machine, and where a venv has its packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import uv

from cpuwheels.process import capture, run
from cpuwheels.torch_install import uv_environment

if TYPE_CHECKING:
    from collections.abc import Sequence


def site_packages(folder: Path) -> Path:
    """Return where the packages of a venv are."""
    return next((folder / "lib").glob("python3*/site-packages"))


def found_interpreters(pythons: Sequence[str]) -> dict[str, Path]:
    """Return this machine's interpreters for some Python versions, such as ``3.11``."""
    return {version: found for version in pythons if (found := _interpreter(version))}


def _interpreter(version: str) -> Path | None:
    found = capture([uv.find_uv_bin(), "python", "find", "--no-project", "--system", version], env=uv_environment())
    return Path(found.output.strip()) if found.returncode == 0 else None


def run_uv(arguments: Sequence[str | Path], log: Path) -> None:
    """Run uv with the settings of a build.

    Raises:
        CommandError: It fails.
    """
    run([uv.find_uv_bin(), *arguments], log=log, env=uv_environment())
