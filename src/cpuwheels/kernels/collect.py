"""Taking finished modules out of the build folder: stripped, with separate debug symbols if requested."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from cpuwheels.core.collect import read_regular
from cpuwheels.core.errors import CompileError
from cpuwheels.core.process import run
from cpuwheels.kernels.memory.ledger import LEDGER
from cpuwheels.kernels.result import DEBUG, LIBRARIES, MODULES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace

_LEDGER_SIZE = 64 << 20
"""vLLM 0.33.0: 331 lines, 0.2 MB."""


def collect(request: KernelRequest, workspaces: Sequence[Workspace], folder: Path, log: Path) -> None:
    """Fill a store folder with the modules, named as in the wheel, and the records of how they were made.

    Raises:
        CompileError: The target declares a library that upstream's CMake did not define.
    """
    for workspace in workspaces:
        names, modules = workspace.configuration.names(), workspace.modules()
        if missing := sorted(names.keys() - set(modules)):
            raise CompileError(
                f"upstream's CMake defines no {', '.join(missing)} for target {request.target.id}",
                where=workspace.modules_list,
                next_step="correct the target's libraries in matrix.yaml for this vLLM version",
            )
        for module in modules:
            built = workspace.module(module)
            name = built.name.replace(module, names.get(module, module), 1)
            _keep(request, built, folder / MODULES / name, folder / DEBUG, log)
    for library in workspaces[0].libraries():
        _keep(request, library, folder / LIBRARIES / library.name, folder / DEBUG, log)
    if os.path.lexists(workspaces[0].ledger):
        (folder / LEDGER).write_bytes(read_built(workspaces[0].ledger, _LEDGER_SIZE))


def read_built(path: Path, most: int) -> bytes:
    """Return the content of a file that a build left.

    Args:
        path: The file.
        most: Bytes that it may have.

    Raises:
        CompileError: There is something else in its place.
    """
    try:
        return read_regular(path, most)
    except ValueError as error:
        raise refused(path, str(error)) from error


def refused(path: Path, fault: str) -> CompileError:
    """Return the error for something that a build left and that is not taken over."""
    return CompileError(
        f"the build left something that is not taken over: {fault}",
        where=path,
        next_step="see what the source's CMake project does; nothing of it was used",
    )


def _keep(request: KernelRequest, built: Path, kept: Path, debug_folder: Path, log: Path) -> None:
    """Make a copy of a finished file, stripped where that is due."""
    if built.is_symlink() or (built.exists() and not built.is_file()):
        raise refused(built, f"{built.name} is no regular file")
    kept.parent.mkdir(exist_ok=True)
    # macOS's are linked without symbols of their own, and signed as they are; sanitizers' reports name lines by what
    # stripping takes away.
    if request.target.system == "Darwin" or request.sanitize:
        shutil.copyfile(built, kept)
        kept.chmod(0o755)
        return
    run([request.toolchain.strip, "--strip-unneeded", "-o", kept, built], log=log)
    if request.debug_symbols:
        debug_folder.mkdir(exist_ok=True)
        debug = debug_folder / f"{kept.name}.debug"
        run([request.toolchain.objcopy, "--only-keep-debug", built, debug], log=log)
        run([request.toolchain.objcopy, f"--add-gnu-debuglink={debug}", kept], log=log)
    kept.chmod(0o755)
