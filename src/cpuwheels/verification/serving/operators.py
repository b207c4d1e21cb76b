"""Which operators the kernel libraries of an installed wheel register."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import InstallCheckError
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.load.loader import Loader, Module

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.sandbox.confine import Confine


def library_operators(
    python: Path, site: Path, libraries: Mapping[str, str], work: Path, log: Path, confine: Confine = unconfined
) -> dict[str, frozenset[str]]:
    """Return the names of the operators that each library registers, overloads included.

    Args:
        python: Interpreter of the environment with the wheel.
        site: Where its packages are.
        libraries: Library → its path in the wheel; this CPU has to run them.
        work: Folder for answers.
        log: Log file.
        confine: Confines the process that loads them.

    Raises:
        InstallCheckError: A library cannot be loaded, or torch cannot.
    """
    paths = {name: site / place for name, place in libraries.items()}
    with Loader(lambda: python, work, log, None, confine) as loader:
        loaded = loader.load([Module("library", path) for path in paths.values()])
    for name, path in paths.items():
        if loaded[path].done.returncode != 0:
            raise InstallCheckError(
                f"{name} cannot be loaded",
                where=path,
                log=log,
                output=loaded[path].done.output,
                next_step="do not publish this wheel",
            )
    return {name: frozenset(operator for operator, _ in loaded[path].operators) for name, path in paths.items()}
