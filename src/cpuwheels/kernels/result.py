"""What the kernel stage hands on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.core.elsewhere import Origin
    from cpuwheels.kernels.depfile import Reads
    from cpuwheels.kernels.memory.admission import MemoryUse
    from cpuwheels.kernels.memory.ledger import JobRecord

MODULES = "vllm"
LIBRARIES = "libraries"
DEBUG = "debug"
MEMORY = "memory.json"


@dataclass(frozen=True)
class Kernels:
    """Finished extension modules in the store.

    Attributes:
        key: Names everything they depend on.
        folder: Holds ``vllm/<module>.abi3.so``, the libraries that modules have in common as
            ``libraries/lib<name>.so`` and, if requested, ``debug/<file>.debug``.
        modules: Module names, sorted.
        jobs: One record for each compilation and link.
        built: Whether this run compiled them.
        memory: What the build that compiled them did with its memory.
        reads: The parts of the source that they depend on.
        flags: Compiler flags of each library and CMake target; none if they were built before these were kept.
        origin: The shared store that they come from; None if this machine compiled them.
    """

    key: str
    folder: Path
    modules: tuple[str, ...]
    jobs: tuple[JobRecord, ...]
    built: bool
    memory: MemoryUse
    reads: Reads
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: Origin | None = None

    @property
    def libraries_folder(self) -> Path:
        """Folder of the libraries that modules have in common; there may be none."""
        return self.folder / LIBRARIES

    @property
    def kept_libraries(self) -> tuple[str, ...]:
        """Those of `libraries_folder` that an earlier build had made: no job of this one linked them."""
        linked = {job.output.rpartition("/")[2] for job in self.jobs}
        return tuple(sorted(path.name for path in self.libraries_folder.glob("*.so") if path.name not in linked))

    @property
    def debug_folder(self) -> Path | None:
        """Folder of the separate debug symbols, if there are any."""
        folder = self.folder / DEBUG
        return folder if folder.is_dir() else None
