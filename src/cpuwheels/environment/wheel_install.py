"""Installing a wheel into an environment with torch and what the cases need, without its other requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import BuildEnvironmentError, CommandError, UnusableWheelError
from cpuwheels.fetch.uv import install_alone, install_cached, site_packages, uv_environment

if TYPE_CHECKING:
    from pathlib import Path


PARITY_LOCK = "parity.txt"
"""What parity's cases import."""


def install_wheel(wheel: Path, python: Path, lock: Path | None, logs: Path, cache: Path | None = None) -> Path:
    """Install a wheel and the cases' own needs.

    Args:
        wheel: The wheel.
        python: Interpreter of a fresh environment with torch.
        lock: Requirements file of the cases; None if their needs are there.
        logs: Folder for uv's output.
        cache: As in `install_alone`.

    Returns:
        The folder that it was installed into.

    Raises:
        BuildEnvironmentError: The cases' needs cannot be installed.
        UnusableWheelError: The wheel cannot be installed.
    """
    log = logs / "parity-install.log"
    try:
        if lock:
            install_cached(["--quiet", "--python", python, "--require-hashes", "-r", lock], uv_environment(), log)
    except CommandError as error:
        raise BuildEnvironmentError(
            "what the cases need cannot be installed",
            where=error.where,
            log=log,
            output=error.output,
            next_step="check that the package index is reachable (UV_DEFAULT_INDEX names another)",
        ) from error
    try:
        install_alone(wheel, python, log, cache)
    except CommandError as error:
        raise UnusableWheelError(
            f"{wheel.name} cannot be installed",
            where=error.where,
            log=log,
            output=error.output,
            next_step="give a wheel that an installer accepts",
        ) from error
    return site_packages(python.parent.parent)
