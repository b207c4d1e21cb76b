"""An environment in which another Python runs this program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import CommandError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.fetch.uv import install_cached, run_uv, site_packages, uv_environment
from cpuwheels.pipeline.variation.circumstances import NotVariedError

if TYPE_CHECKING:
    from pathlib import Path

LOCK = "locks/run.txt"
"""Below the project's files: what this program requires."""

_NAME = "cpuwheels"


def driver_environment(folder: Path, python: Path, root: Path, log: Path, version: str) -> Path:
    """Make an environment with all that this program requires, and return its interpreter.

    The program itself is not installed, only described: records have its version.

    Args:
        folder: Of the environment.
        python: The interpreter that it is made from.
        root: The folder with the project's files.
        log: uv's output.
        version: Of the program that is to be run.

    Raises:
        NotVariedError: It cannot be made.
    """
    made = folder / "bin" / "python"
    try:
        run_uv(["venv", "--quiet", "--python", python, folder], log)
        install_cached(["--quiet", "--python", folder, "--require-hashes", "-r", root / LOCK], uv_environment(), log)
    except CommandError as error:
        raise NotVariedError(f"{python} cannot run it: {error.what} (see {log})") from error
    info = site_packages(folder) / f"{_NAME}-{version}.dist-info"
    with storage_errors(info):
        info.mkdir()
        write_atomic(info / "METADATA", f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n")
    return made
