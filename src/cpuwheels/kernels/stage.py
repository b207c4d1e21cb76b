"""The kernel stage: from a request to modules in the store, resumable at every point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.kernels.collect import collect
from cpuwheels.kernels.compile import compile_modules
from cpuwheels.kernels.configure import configure
from cpuwheels.kernels.result import LEDGER, MODULES, Kernels, read_ledger
from cpuwheels.kernels.workspace import Workspace
from cpuwheels.storage import remove_tree

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.store import Store

KIND = "kernels"


def get_kernels(
    request: KernelRequest, *, jobs: int, memgate: Path | None, store: Store, reporter: Reporter, logs: Path
) -> Kernels:
    """Return the kernels of a request, building them if the store does not have them.

    Args:
        request: Their inputs.
        jobs: Compilations at once.
        memgate: The launcher that measures each job; None builds without a ledger.
        store: Where kernels and unfinished builds are kept.
        reporter: Told of every step.
        logs: Folder for the logs of each step.

    Raises:
        ConfigureError: CMake stopped.
        CompileError: A file did not compile.
        OutOfMemoryError: A compiler was killed for memory.
    """
    key = request.key()
    built = False
    workspace = Workspace(store.work(KIND, key))

    def make(folder: Path) -> None:
        nonlocal built
        built = True
        workspace.prepare(request)
        launcher = [str(memgate), "--ledger", str(workspace.ledger), "--"] if memgate else []
        reporter.info("configuring upstream's CMake project")
        configure(request, workspace, launcher, logs / "configure.log")
        reporter.info(f"compiling {', '.join(workspace.modules())} with {jobs} jobs; log: {logs / 'compile.log'}")
        compile_modules(request, workspace, jobs, reporter, logs / "compile.log")
        collect(request, workspace, folder, logs / "collect.log")

    folder = store.get(KIND, key, make)
    if built:
        remove_tree(workspace.folder)
    else:
        reporter.info(f"kernels {key} are in the store; nothing to compile")
    return Kernels(
        key=key,
        folder=folder,
        modules=tuple(sorted(path.name.partition(".")[0] for path in (folder / MODULES).iterdir())),
        jobs=read_ledger(folder / LEDGER),
        built=built,
    )
