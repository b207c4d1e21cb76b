"""Taking finished modules out of the build folder: stripped, with debug symbols aside if asked for."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cpuwheels.errors import CompileError
from cpuwheels.kernels.result import DEBUG, LEDGER, LIBRARIES, MODULES
from cpuwheels.process import run

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace


def collect(request: KernelRequest, workspace: Workspace, folder: Path, log: Path) -> None:
    """Fill a store folder with the modules and what is known of their making.

    Raises:
        CompileError: The target declares a library that upstream's CMake did not define.
    """
    modules = workspace.modules()
    missing = [library.name for library in request.target.libraries if library.name not in modules]
    if missing:
        raise CompileError(
            f"upstream's CMake defines no {', '.join(missing)} for target {request.target.id}",
            where=workspace.modules_list,
            next_step="correct the target's libraries in matrix.yaml for this vLLM version",
        )
    for module in modules:
        _keep(request, workspace.module(module), folder / MODULES, folder / DEBUG, log)
    for library in workspace.libraries():
        _keep(request, library, folder / LIBRARIES, folder / DEBUG, log)
    if workspace.ledger.is_file():
        shutil.copyfile(workspace.ledger, folder / LEDGER)


def _keep(request: KernelRequest, built: Path, folder: Path, debug_folder: Path, log: Path) -> None:
    """Put a stripped copy of a finished file into a folder."""
    folder.mkdir(exist_ok=True)
    kept = folder / built.name
    if request.target.system == "Darwin":
        # Linked without symbols of their own, and signed as they are.
        shutil.copyfile(built, kept)
        kept.chmod(0o755)
        return
    run([request.toolchain.strip, "--strip-unneeded", "-o", kept, built], log=log)
    if request.debug_symbols:
        debug_folder.mkdir(exist_ok=True)
        debug = debug_folder / f"{built.name}.debug"
        run([request.toolchain.objcopy, "--only-keep-debug", built, debug], log=log)
        run([request.toolchain.objcopy, f"--add-gnu-debuglink={debug}", kept], log=log)
    kept.chmod(0o755)
