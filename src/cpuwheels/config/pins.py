"""The model of what ``matrix.yaml`` pins by content: archives, torch, oneDNN, Arm Compute Library, gperftools."""

from __future__ import annotations

from typing import Annotated

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, Field, StringConstraints

from cpuwheels.core.models import Commit, Sha256, Strict


def _version(text: str) -> str:
    try:
        Version(text)
    except InvalidVersion as error:
        msg = f"{text!r} is not a version (PEP 440)"
        raise ValueError(msg) from error
    return text


PepVersion = Annotated[str, AfterValidator(_version)]
SecureUrl = Annotated[str, StringConstraints(pattern=r"^https://[^\s@]+$")]
"""An address that nobody on the way changes the answers of, without a user name."""


class Archive(Strict):
    """A file pinned by content."""

    urls: tuple[str, ...] = Field(min_length=1)
    """Mirrors, tried in order; all must serve the same bytes."""
    sha256: Sha256
    size: int = Field(gt=0)
    """Bytes."""


class TorchWheel(Strict):
    """One torch wheel whose bytes are known."""

    python: str = Field(pattern=r"^cp3\d+$")
    machine: str
    sha256: Sha256


class TorchAlternate(Strict):
    """Another build of torch for one machine, used only where no CPU wheel of the pinned version can be found."""

    machine: str
    version: PepVersion
    root: str
    """Debian lock of a root with its headers and libraries: ``locks/<name>.yaml``."""


class TorchPin(Strict):
    """A torch version and where its CPU builds are."""

    local: str = "cpu"
    """Local version label of the CPU build on Linux; a plain version there is a CUDA build."""
    index: str
    """Package index with CPU builds, asked after the find-links and indexes that the user configured."""
    plain_index: str = "https://pypi.org/simple"
    """The same for systems whose CPU builds have no label."""
    wheels: tuple[TorchWheel, ...] = ()
    """Wheels pinned by content. Any other CPU build of the version is announced and refused if locked."""
    alternates: tuple[TorchAlternate, ...] = ()

    def index_for(self, system: str) -> str:
        """Return the index with CPU builds for a system, as ``platform.system()`` names it."""
        return self.index if system == "Linux" else self.plain_index

    def wheels_for(self, machine: str) -> tuple[TorchWheel, ...]:
        """Return the wheels for a machine that are pinned by content."""
        return tuple(wheel for wheel in self.wheels if wheel.machine == machine)

    def alternate(self, machine: str) -> TorchAlternate | None:
        """Return the fallback for a machine, if there is one."""
        return next((alternate for alternate in self.alternates if alternate.machine == machine), None)


class DebianSource(Strict):
    """A source archive that Debian keeps, as upstream released it."""

    version: PepVersion
    debian: str
    """Path of the archive below a Debian mirror."""
    sha256: Sha256
    size: int = Field(gt=0)


class OneDnnPin(Strict):
    """OneDNN by commit, or by its tag alone."""

    commit: Commit | None = None
    """Without it the tag is trusted: announced, recorded, and refused if locked."""
    repositories: tuple[str, ...] = Field(min_length=1)
    """Git remotes, tried in order. ``CPUWHEELS_ONEDNN_REPO`` puts one in front."""
    machines: tuple[str, ...] = ()
    """Machines that upstream uses this one on; every other machine if none is named."""
    alternates: tuple[DebianSource, ...] = ()
    """Releases that are used only when the pinned commit cannot be reached."""


class AclPin(Strict):
    """Arm Compute Library by commit, or by its tag alone."""

    commit: Commit | None = None
    """Without it the tag is trusted: announced, recorded, and refused if locked. `git rev-parse
    '<tag>^{commit}'` prints it in a clone."""
    repositories: tuple[str, ...] = Field(min_length=1)
    """Git remotes, tried in order. ``CPUWHEELS_ACL_REPO`` puts one in front."""
    machines: tuple[str, ...] = Field(min_length=1)
    """Machines that upstream uses it on."""
    options: dict[str, str] = Field(default_factory=dict)
    """CMake options it is compiled with: those of upstream's own command."""
    march: str | None = None
    """Architecture, as the assembler's -march names it, up to which it has kernels. It chooses among them by what
    the CPU reports, so the library that contains it is checked against this architecture."""
