"""The model of ``matrix.yaml``: what can be built, from which pinned inputs, under which limits."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal

from packaging.version import Version
from pydantic import Field, model_validator

from cpuwheels.config.image_pins import ImagePins
from cpuwheels.config.nightly import Nightly
from cpuwheels.config.pins import AclPin, Archive, DebianSource, OneDnnPin, PepVersion, SecureUrl, TorchPin
from cpuwheels.core.errors import TargetNotBuiltError, UnknownTargetError
from cpuwheels.core.models import Identifier, Strict, load_yaml
from cpuwheels.core.units import ByteSize


class Debian(Strict):
    """Where pinned Debian packages come from."""

    mirrors: tuple[str, ...] = Field(min_length=1)
    """Tried in order, after ``CPUWHEELS_DEBIAN_MIRROR`` and the mirror of the machine's apt sources."""


class CompilerRequirements(Strict):
    """Which host compilers a target accepts."""

    family: Literal["GNU", "AppleClang"]
    minimum: PepVersion
    commands: tuple[str, ...] = Field(min_length=1)
    """C++ compilers looked for on PATH, in order of preference, after CXX."""


class UntriedKernels(Strict):
    """Kernels of a library that no CPU has run yet: compiled, audited, and marked wherever a wheel is shown."""

    name: str
    """For people, such as ``AMX-FP8``."""
    needs: tuple[str, ...] = Field(min_length=1)
    """CPU features, as `isaprobe` names them, without which they are not run."""
    instructions: tuple[str, ...] = Field(min_length=1)
    """Mnemonics that no other kernels have; the library may hold them, since it asks the CPU first."""


class Library(Strict):
    """One ISA library of a target."""

    name: str
    """Module name inside the ``vllm`` package."""
    module: str | None = None
    """Upstream's module that becomes this library; the one of its name if not given."""
    isa: tuple[str, ...]
    """Instruction sets it is compiled for."""
    cpuinfo: str | None = None
    """What upstream's CPU detection reads for this library; each different text is a configuration of its own."""
    march: str | None = None
    """Architecture, as the assembler's -march names it, beyond which the library has no instruction."""
    guarded: tuple[str, ...] = ()
    """What is used only after asking the CPU: exported functions, or ``module:mnemonic`` (wildcards allowed)."""
    expected: tuple[str, ...] = ()
    """Mnemonics (wildcards allowed) that it has to hold: without one of them a release's kernels are not all there."""
    untried: tuple[UntriedKernels, ...] = ()
    """Its kernels that no CPU has run yet; those that a wheel's library really holds are in the wheel's note."""
    needs: tuple[str, ...] = ()
    """CPU features, as `isaprobe` names them, without which it cannot be loaded."""
    emulated: str | None = None
    """A CPU, as QEMU names it, that has these features and none of the newer ones; parity also runs on it."""

    @property
    def upstream(self) -> str:
        """Name of upstream's module."""
        return self.module or self.name


class Target(Strict):
    """A row of the matrix."""

    id: Identifier
    """The same everywhere: session names, logs, folders, index."""
    description: str
    """One line, shown by ``nox -l`` and in the README."""
    status: Literal["ready", "planned"]
    default_source: PepVersion | None = None
    """vLLM version that is built if none is requested; the matrix's own if not given."""
    runner: str = ""
    """GitHub's runner that builds it; none if not given."""
    system: Literal["Linux", "Darwin"]
    machine: str
    """What ``platform.machine()`` returns on the target."""
    floor: str
    """Highest platform policy the wheel may need, such as ``manylinux_2_28``."""
    compiler: CompilerRequirements
    toolchain: str | None = None
    """Lock of the compiler to unpack when no host compiler meets the requirements: ``locks/<name>.yaml``."""
    zig: str | None = None
    """Lock of zig, which builds where the family's own compiler does not run: ``locks/<name>.txt``."""
    binutils: str | None = None
    """Lock of the assembler and disassembler that check what zig has built: ``locks/<name>.yaml``."""
    python_headers: str | None = None
    """Lock of Python's headers for a target without a sysroot: ``locks/<name>.yaml``."""
    sanitizers: str | None = None
    """Lock of the run times of the unpacked compiler's sanitizers: ``locks/<name>.yaml``."""
    sysroot: str | None = None
    """Lock of the packages whose headers and libraries the kernels are built against."""
    root: str | None = None
    """Lock of a Debian root of this machine with Python and torch, in which wheels are tested on other machines."""
    chooser: str | None = None
    """Module that asks the CPU and loads the first of the libraries that it can run (``csrc/chooser``)."""
    baseline: str | None = None
    """Architecture of the least machine, as -march names it; the chooser is compiled for it and has nothing beyond."""
    libraries: tuple[Library, ...] = Field(min_length=1)
    """The best first, if there is a chooser."""
    excluded_libraries: tuple[str, ...] = ()
    """Sonames that come with torch and must not be copied into the wheel."""
    defines: dict[str, str] = Field(default_factory=dict)
    """CMake cache entries that decide what upstream would otherwise detect."""
    onednn: bool = True
    """Whether upstream's kernels use oneDNN on this target."""
    tcmalloc: bool = False
    """Whether the wheel holds the allocator that vLLM preloads into a server's processes."""
    cpuinfo: str = ""
    """What upstream's CPU detection reads in place of ``/proc/cpuinfo``."""
    image: ImagePins | None = None
    """What its container image is made from; there is none if not given."""
    worst_peak: ByteSize
    """Peak memory of the largest single compilation, with a margin: the largest ``peak_bytes`` in a ``record.json``."""
    worst_peak_debug: ByteSize
    """The same with ``--debug-symbols``."""

    def peak(self, *, debug_symbols: bool) -> int:
        """Return the bytes that the largest single compilation may need."""
        return self.worst_peak_debug if debug_symbols else self.worst_peak

    @property
    def configurations(self) -> dict[str, tuple[Library, ...]]:
        """The texts that upstream's CPU detection reads, one for each configuration, with their libraries."""
        found: dict[str, tuple[Library, ...]] = {}
        for library in self.libraries:
            text = self.cpuinfo if library.cpuinfo is None else library.cpuinfo
            found[text] = (*found.get(text, ()), library)
        return found

    @property
    def library_names(self) -> tuple[str, ...]:
        """The names of its kernel libraries, in order."""
        return tuple(library.name for library in self.libraries)

    @property
    def is_ready(self) -> bool:
        """Whether the target can be built."""
        return self.status == "ready"


class Release(Strict):
    """A vLLM release on PyPI."""

    version: PepVersion
    sdist: Archive
    torch: PepVersion | None = None
    """The torch that it pins, so that `doctor` can check it before the sdist is fetched."""


class Matrix(Strict):
    """The whole of ``matrix.yaml``."""

    default_source: PepVersion
    python: tuple[str, ...] = Field(min_length=1)
    """Build interpreters in order of preference; the wheels are abi3."""
    debian: Debian
    repositories: tuple[str, ...] = ()
    """Git remotes of vLLM, tried in order. ``CPUWHEELS_VLLM_REPO`` puts one in front."""
    own_repositories: tuple[SecureUrl, ...] = ()
    """Git remotes of cpuwheels itself, from which versions that built a wheel are fetched to rebuild it."""
    releases: tuple[Release, ...] = Field(min_length=1)
    torch: dict[PepVersion, TorchPin]
    onednn: dict[str, OneDnnPin]
    """By the GIT_TAG that vLLM's CMake names."""
    acl: dict[str, AclPin] = Field(default_factory=dict)
    """Arm Compute Library, by the GIT_TAG that vLLM's CMake names."""
    gperftools: DebianSource | None = None
    """The source of tcmalloc, for the targets whose wheels hold it."""
    compiler_cache: dict[str, str] = Field(default_factory=dict)
    """Debian lock with ccache for each machine that builds (``x86_64``); elsewhere there is none."""
    sandbox: dict[str, str] = Field(default_factory=dict)
    """Debian lock with bubblewrap for each machine that builds (``x86_64``)."""
    emulator: dict[str, str] = Field(default_factory=dict)
    """Debian lock with QEMU's user-mode emulators for each machine that they run on (``x86_64``)."""
    image_tools: dict[str, str] = Field(default_factory=dict)
    """Debian lock with the programs that push and check images, for each machine that they run on (``x86_64``)."""
    nightly: Nightly = Field(default_factory=Nightly)
    """What the nightly job builds and keeps."""
    targets: tuple[Target, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Matrix:
        for name, values in (
            ("target", [target.id for target in self.targets]),
            ("release", [release.version for release in self.releases]),
        ):
            twice = {value for value in values if values.count(value) > 1}
            if twice:
                msg = f"{name} {', '.join(sorted(twice))} is listed twice"
                raise ValueError(msg)
        if without := [target.id for target in self.targets if target.tcmalloc and self.gperftools is None]:
            msg = f"{', '.join(without)}: tcmalloc needs the matrix's gperftools"
            raise ValueError(msg)
        for version in (self.default_source, *filter(None, (target.default_source for target in self.targets))):
            if self.release(version) is None:
                msg = f"default_source {version} is not among the releases"
                raise ValueError(msg)
        return self

    def source_of(self, target: Target) -> str:
        """Return the vLLM version that is built for a target if none is requested."""
        return target.default_source or self.default_source

    def release(self, version: str) -> Release | None:
        """Return the pinned release of a version, or None."""
        wanted = Version(version)
        return next((release for release in self.releases if Version(release.version) == wanted), None)

    def target(self, name: str) -> Target:
        """Return a target by its id.

        Raises:
            UnknownTargetError: There is none; the nearest id is named.
        """
        ids = [target.id for target in self.targets]
        if name not in ids:
            near = difflib.get_close_matches(name, ids, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise UnknownTargetError(
                f"unknown target '{name}'", where="command line", next_step=f"{hint}the matrix has: {', '.join(ids)}"
            )
        return self.targets[ids.index(name)]

    def buildable(self, name: str) -> Target:
        """Return a target that can be built.

        Raises:
            UnknownTargetError: There is no such target.
            TargetNotBuiltError: The target is only planned.
        """
        target = self.target(name)
        if not target.is_ready:
            ready = ", ".join(other.id for other in self.targets if other.is_ready)
            raise TargetNotBuiltError(
                f"target '{name}' ({target.description}) is planned but cannot be built yet",
                where="matrix.yaml: its status is 'planned'",
                next_step=f"ready now: {ready}",
            )
        return target


def load_matrix(place: Path) -> Matrix:
    """Read the configuration.

    Args:
        place: The file, or the folder with ``matrix.yaml``.

    Raises:
        MatrixError: It is missing or does not fit the model.
    """
    return load_yaml(place / "matrix.yaml" if place.is_dir() else place, Matrix)
