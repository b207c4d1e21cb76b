"""tcmalloc, the allocator that vLLM preloads into the processes of a server if it finds it in its package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import CommandError, CompileError
from cpuwheels.core.process import run
from cpuwheels.kernels.external_project import BUILD, Project, get_project
from cpuwheels.kernels.memory.admission import open_gate
from cpuwheels.kernels.result import MODULES
from cpuwheels.source.debian_source import get_debian_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.pins import DebianSource
    from cpuwheels.kernels.ccache.settings import CompilerCache
    from cpuwheels.kernels.memory.admission import CapPlan
    from cpuwheels.kernels.request import KernelRequest

KIND = "tcmalloc"
LIBRARY = "tcmalloc_minimal"
FILE = f"{MODULES}/libs/lib{LIBRARY}.so"
"""Its name in the wheel."""

PRELOADED = re.compile(rf"{MODULES}/libs/libtcmalloc(?:_minimal[^/]*)?\.so[^/]*")
"""Names in a wheel that vllm/platforms/cpu.py looks for: ``libtcmalloc_minimal*.so*`` and ``libtcmalloc.so*``."""

_TITLE = "gperftools"
_OPTIONS = {
    "BUILD_SHARED_LIBS": "ON",
    "BUILD_TESTING": "OFF",
    "CMAKE_BUILD_TYPE": "Release",
    "gperftools_build_benchmark": "OFF",
    # Without the profilers and the heap checker, which would need libunwind.
    "gperftools_build_minimal": "ON",
}


@dataclass(frozen=True)
class Tcmalloc:
    """The allocator for the wheel of one target.

    Attributes:
        version: Of gperftools.
        digest: The sha256 of its sources.
        key: Names the library's bytes: a digest of everything that they depend on.
        file: The library, stripped.
        source: Its sources, with their licence.
    """

    version: str
    digest: str
    key: str
    file: Path
    source: Path


def tcmalloc_digest(matrix: Matrix, target: Target) -> str | None:
    """Return a digest of what a target's allocator is compiled from; None if its wheel holds none."""
    pin = _pin(matrix, target)
    return make_key(source=pin.sha256, options=_OPTIONS) if pin else None


def get_tcmalloc(
    context: BuildContext,
    request: KernelRequest,
    *,
    cap: Callable[[Path], CapPlan],
    cache: Callable[[], CompilerCache | None],
) -> Tcmalloc | None:
    """Return the allocator for a target's wheel, or None if the target has none.

    Args:
        context: The run; its store keeps the library.
        request: The kernels in the same wheel, for their toolchain and tools.
        cap: Returns how a build in a folder is kept below its cap.
        cache: Returns the compiler cache, if one is to be used; only asked when something must be compiled.

    Raises:
        DownloadError: Its sources are on no mirror and not in the store.
        ConfigureError: CMake stopped.
        CompileError: It does not compile.
        MemoryCapError: One file is known to need more memory than there is.
        OutOfMemoryError: A compiler was killed for memory.
    """
    pin = _pin(context.matrix, context.target)
    if pin is None:
        return None
    source = get_debian_source(context, KIND, _TITLE, pin)
    project = Project(KIND, f"{_TITLE} {pin.version}", source, pin.sha256, _OPTIONS, (LIBRARY,), shared=True)
    key = make_key(project=project.key(request), stripped=True)

    def make(folder: Path) -> None:
        with context.store.scratch("gate") as gate:
            plan = cap(gate)
            open_gate(plan)
            built = get_project(context, project, request, plan, cache())
        _strip(context, request, built / BUILD / f"lib{LIBRARY}.so", folder / FILE)

    return Tcmalloc(pin.version, pin.sha256, key, context.store.get(f"{KIND}-stripped", key, make) / FILE, source)


def _strip(context: BuildContext, request: KernelRequest, library: Path, stripped: Path) -> None:
    stripped.parent.mkdir(parents=True)
    log = context.logs / f"{KIND}-strip.log"
    try:
        run([request.toolchain.strip, "--strip-unneeded", "-o", stripped, library], log=log)
    except CommandError as error:
        raise CompileError(
            f"{library.name} cannot be stripped", where=library, log=log, output=error.output, next_step="read the log"
        ) from error
    stripped.chmod(0o755)


def _pin(matrix: Matrix, target: Target) -> DebianSource | None:
    return matrix.gperftools if target.tcmalloc else None
