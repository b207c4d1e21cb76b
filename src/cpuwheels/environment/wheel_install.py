"""Installing a wheel into an environment with torch and what the cases need, without its other requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import BuildEnvironmentError, CommandError, UnusableWheelError
from cpuwheels.environment.linked_install import install_one
from cpuwheels.fetch.uv import install_cached, site_packages, uv_environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


PARITY_LOCK = "parity.txt"
"""What parity's cases import."""


_LOG = "parity-install.log"


def install_lock(python: Path, lock: Path, logs: Path, options: Sequence[str] = ()) -> None:
    """Install what a lock has; the arguments are those of `install_wheel`.

    Raises:
        BuildEnvironmentError: It cannot be installed.
    """
    log = logs / _LOG
    arguments: list[str | Path] = ["--quiet", "--python", python, "--require-hashes", *options, "-r", lock]
    try:
        install_cached(arguments, uv_environment(), log)
    except CommandError as error:
        raise BuildEnvironmentError(
            "what the wheel is tested with cannot be installed",
            where=error.where,
            log=log,
            output=error.output,
            next_step="check that the package index is reachable (UV_DEFAULT_INDEX names another)",
        ) from error


def install_wheel(
    wheel: Path, python: Path, lock: Path | None, logs: Path, kept: Path | None = None, options: Sequence[str] = ()
) -> Path:
    """Install a wheel, and what a lock has.

    Args:
        wheel: The wheel.
        python: Interpreter of a fresh environment with torch.
        lock: Requirements file with versions and hashes; None if what is needed is there.
        logs: Folder for uv's output.
        kept: As in `install_one`.
        options: More options of ``uv pip install`` for what the lock has.

    Returns:
        The folder that it was installed into.

    Raises:
        BuildEnvironmentError: What the lock has cannot be installed.
        UnusableWheelError: The wheel cannot be installed.
    """
    log = logs / _LOG
    if lock:
        install_lock(python, lock, logs, options)
    try:
        install_one(wheel, python, log, kept)
    except CommandError as error:
        raise UnusableWheelError(
            f"{wheel.name} cannot be installed",
            where=error.where,
            log=log,
            output=error.output,
            next_step="give a wheel that an installer accepts",
        ) from error
    return site_packages(python.parent.parent)
