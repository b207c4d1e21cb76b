"""The commands in front of every compiler and linker: memgate, then the compiler cache."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from cpuwheels.core.digests import make_key
from cpuwheels.kernels.ccache.header_shadowing import shadows_digest
from cpuwheels.kernels.ccache.settings import NOTE, checked
from cpuwheels.sandbox.confine import Confined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.kernels.ccache.settings import CompilerCache
    from cpuwheels.kernels.confined import Confinement
    from cpuwheels.kernels.memory.memgate import GateFolder
    from cpuwheels.kernels.request import KernelRequest

HEADERS = ("CPUWHEELS_TORCH_ALL", "CPUWHEELS_TORCH_WITHOUT", "CPUWHEELS_EMPTY_HEADERS")
"""Settings with which ``cmake/steer/headers.cmake`` writes headers that are found before those of the same names."""

ONEDNN_HEADERS = ("CPUWHEELS_ONEDNN_FLOOR",)
"""The same for oneDNN's files, in ``cmake/steer/onednn.cmake``."""


@dataclass(frozen=True)
class Launchers:
    """Commands in front of others, and the variables that they read.

    Attributes:
        compiler: Before compilers.
        linker: Before linkers.
        onednn: Before compilers of oneDNN's files, if that is another command.
        environment: Variables for both.
        confinement: Confines CMake and ninja, which start both; they run as they are if there is none.
    """

    compiler: Sequence[str] = ()
    linker: Sequence[str] = ()
    onednn: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    confinement: Confinement | None = None

    @classmethod
    def of(cls, gate: GateFolder, ledger: Path, cache: CompilerCache | None, request: KernelRequest) -> Self:
        """Return the launchers of one kernel build."""
        found = cls.behind(gate, ledger, cache, object_identity(request) if cache else "")
        if cache is None or request.onednn is None:
            return found
        # ccache takes settings of one call before the compiler (its manual, "Usage").
        return replace(found, onednn=[*found.compiler, f"compiler_check={checked(onednn_identity(request))}"])

    @classmethod
    def behind(cls, gate: GateFolder, ledger: Path, cache: CompilerCache | None, identity: str) -> Self:
        """Return the launchers of a build.

        memgate comes first: a waiting job then costs as little as possible, and cached jobs also wait their turn.

        Args:
            gate: Where jobs wait for room.
            ledger: File that gets a line for each job.
            cache: The compiler cache, if there is one.
            identity: Names everything that decides about an object and that no compiler reads as a file.
        """
        alone = gate.launcher(ledger)
        if cache is None:
            return cls(alone, alone)
        return cls(
            compiler=[*gate.launcher(ledger, note=NOTE), *cache.launcher()],
            linker=alone,
            environment=cache.environment(identity),
        )

    def confined(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str], also: Iterable[Path] = ()
    ) -> Confined:
        """Return CMake's or ninja's command as it is run; the arguments are those of `Confinement.command`."""
        if self.confinement is None:
            return Confined(list(argv), dict(env))
        return self.confinement.command(name, argv, env, also)

    def variables(self) -> dict[str, str]:
        """Return CMake's variables for them, to be set in its cache and in its environment.

        CMake also reads them from the environment where nothing else is set, as in builds that this one starts
        itself (its manual, environment variable CMAKE_<LANG>_COMPILER_LAUNCHER).

        Compilers are started by ``exec``, so that the shell of each of the hundreds of jobs that wait is not there
        too. A link is followed by other commands in the same shell.
        """
        if not self.compiler:
            return {}
        found = {}
        for language in ("C", "CXX"):
            found[f"CMAKE_{language}_COMPILER_LAUNCHER"] = ";".join(["exec", *self.compiler])
            found[f"CMAKE_{language}_LINKER_LAUNCHER"] = ";".join(self.linker)
        if self.onednn:
            found["CPUWHEELS_ONEDNN_LAUNCHER"] = ";".join(["exec", *self.onednn])
        return found


def object_identity(request: KernelRequest) -> str:
    """Return a digest of what decides about an object file apart from the command and the files that were read.

    Those files' content counts by itself; this covers the compiler, and which headers lie where others might be
    meant.
    """
    toolchain, environment = request.toolchain, request.environment
    folders = [environment.torch_folder / "include"]
    if request.onednn is not None:
        folders.insert(0, request.onednn.folder)
    if toolchain.sysroot is not None:
        folders.append(toolchain.sysroot / "usr" / "include")
    return make_key(
        toolchain=toolchain.digest,
        torch=environment.torch_digest,
        onednn=request.onednn and request.onednn.digest,
        acl=request.acl.commit if request.acl else None,
        shadows=shadows_digest(request.source.folder / "csrc", folders),
        headers=[request.target.defines.get(name) for name in HEADERS],
    )


def onednn_identity(request: KernelRequest) -> str:
    """Return the same for object files of oneDNN, which another vLLM or another torch leaves as they are.

    No file of theirs can be read for one of its own: ``cmake/steer/onednn.cmake`` takes their folders out.
    """
    return make_key(
        toolchain=request.toolchain.digest,
        onednn=request.onednn and request.onednn.digest,
        acl=request.acl.commit if request.acl else None,
        headers=[request.target.defines.get(name) for name in ONEDNN_HEADERS],
    )
