"""What a set of kernels is made from, and the key that names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpuwheels.core.digests import make_key, tree_digest
from cpuwheels.kernels.sanitizers import SANITIZERS

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Library, Target
    from cpuwheels.config.options import Sanitizer
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.source.acl import Acl
    from cpuwheels.source.onednn import OneDnn
    from cpuwheels.source.patched import PreparedSource
    from cpuwheels.toolchain.result import Toolchain

KERNEL_INPUTS = ["CMakeLists.txt", "cmake", "csrc"]
"""Upstream files that the kernels can depend on; Python-only changes do not touch them."""


OPTIMISATION = "-O2 -DNDEBUG"
"""What upstream's RelWithDebInfo means without its -g, which costs half of the compile time."""


def steering_files(target: str) -> list[str]:
    """Return the files below ``cmake/`` that a target's kernels are configured with."""
    return ["steer", "steer.cmake", "project.cmake", "toolchains/gnu.cmake", f"toolchains/{target}.cmake"]


@dataclass(frozen=True)
class Configuration:
    """One configuration of upstream's CMake project.

    Attributes:
        name: Of its folder; empty for the first.
        cpuinfo: What upstream's CPU detection reads.
        libraries: The libraries that its modules become.
    """

    name: str
    cpuinfo: str
    libraries: tuple[Library, ...]

    def names(self) -> dict[str, str]:
        """Return the names of upstream's modules in the wheel."""
        return {library.upstream: library.name for library in self.libraries}


def configurations(target: Target) -> tuple[Configuration, ...]:
    """Return how upstream's project is configured for a target; all but the first make only their own libraries."""
    return tuple(
        Configuration(libraries[0].name if number else "", cpuinfo, libraries)
        for number, (cpuinfo, libraries) in enumerate(target.configurations.items())
    )


@dataclass(frozen=True, kw_only=True)
class KernelInputs:
    """What kernels are made from, except for the compiler.

    Attributes:
        root: The project's folder, for cmake/.
        target: What is built.
        source: Upstream's tree with our patches, read only.
        environment: CMake, ninja, and torch.
        onednn: oneDNN's sources, if the target's kernels use it.
        acl: Arm Compute Library's sources, or that the kernels go without; None if the target does not use it.
        debug_symbols: Whether separate ``.debug`` files are written.
        sanitize: Sanitizers that upstream's code is compiled for.
    """

    root: Path
    target: Target
    source: PreparedSource
    environment: Environment
    onednn: OneDnn | None
    acl: Acl | None = None
    debug_symbols: bool = False
    sanitize: Sanitizer | None = None

    def beside_source(self) -> dict[str, Any]:
        """Return everything the kernels depend on but the compiler and upstream's files, as JSON has it."""
        return {
            "steering": tree_digest(self.root / "cmake", steering_files(self.target.id)),
            "target": {
                "machine": self.target.machine,
                "defines": dict(self.target.defines),
                "cpuinfo": [[part.cpuinfo, part.names()] for part in configurations(self.target)],
                "floor": self.target.floor,
            },
            "torch": [self.environment.torch_version, self.environment.torch_digest],
            "cmake": self.environment.tools["cmake"],
            "onednn": self.onednn and self.onednn.key,
            "acl": [self.acl.commit, dict(self.acl.options)] if self.acl and self.acl.commit else None,
            "optimisation": OPTIMISATION,
            "debug_symbols": self.debug_symbols,
            # Named only where there are some, so that the keys of all other kernels are without them.
            **({"sanitize": SANITIZERS[self.sanitize].identity(self.root)} if self.sanitize else {}),
        }


@dataclass(frozen=True, kw_only=True)
class KernelRequest(KernelInputs):
    """The inputs of the kernel stage.

    Attributes:
        toolchain: Compilers and sysroot.
    """

    toolchain: Toolchain

    def key(self) -> str:
        """Return the key of a build: a digest of everything its kernels can depend on.

        Where the build happens, how many jobs it uses and which Python drives it are not part of it.
        """
        return make_key(beside=self.key_beside_source(), source=tree_digest(self.source.folder, KERNEL_INPUTS))

    def key_beside_source(self) -> str:
        """Return a digest of everything the kernels depend on but upstream's files."""
        return make_key(layout=2, toolchain=self.toolchain.digest, **self.beside_source())
