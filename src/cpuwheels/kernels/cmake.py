"""Running CMake's configuration of a project, with its settings in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import CommandError, ConfigureError
from cpuwheels.core.process import run
from cpuwheels.kernels.confined import require_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.launchers import Launchers


def run_cmake(
    title: str,
    environment: Environment,
    source: Path,
    build: Path,
    init_cache: Path,
    *,
    env: Mapping[str, str],
    launchers: Launchers,
    log: Path,
    next_step: str,
) -> None:
    """Configure a project for ninja.

    Args:
        title: The project, for people.
        environment: With CMake.
        source: Its tree.
        build: The build folder.
        init_cache: File with the entries of CMake's cache (``cmake -C``).
        env: All variables that CMake is to see, without the launchers'.
        launchers: Commands put in front of every compiler and linker.
        log: CMake's output.
        next_step: What to do where CMake stops.

    Raises:
        ConfigureError: CMake stopped; its output is in the message.
    """
    command: list[str | Path] = [
        environment.scripts / "cmake",
        *("-S", source, "-B", build, "-G", "Ninja"),
        *("-C", init_cache, "-Wno-dev", "--no-warn-unused-cli"),
    ]
    confined = launchers.confined(f"CMake of {title}", command, {**env, **launchers.variables()})
    try:
        run(confined.argv, log=log, env=confined.env)
    except CommandError as error:
        raise ConfigureError(
            f"CMake could not configure {title}", where=source, log=log, output=error.output, next_step=next_step
        ) from error
    require_files([build / "compile_commands.json"])
