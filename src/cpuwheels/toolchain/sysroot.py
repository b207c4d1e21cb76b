"""The root whose headers and libraries the kernels are built against, lowered to the floor's age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import ToolchainError
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import content_key, unpacked_root
from cpuwheels.toolchain import glibc_floor

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.platform_policy import Policy

KIND = "sysroots"


@dataclass(frozen=True)
class Sysroot:
    """An unpacked root.

    Attributes:
        root: The folder that is its ``/``.
        multiarch: Debian's name of the machine, in the paths below it.
    """

    root: Path
    multiarch: str

    @property
    def library_folders(self) -> tuple[Path, ...]:
        """Folders with its libraries; before Debian 12 the C library's are not below ``usr``."""
        folders = (self.root / "usr/lib" / self.multiarch, self.root / "lib" / self.multiarch)
        unique = {folder.resolve(): folder for folder in reversed(folders) if folder.is_dir()}
        return tuple(reversed(unique.values()))

    @property
    def cxx_library(self) -> Path:
        """Its shared C++ library, lowered to the floor."""
        return self.root / "usr/lib" / self.multiarch / "libstdc++.so.6"

    @property
    def python_include(self) -> tuple[Path, ...]:
        """Folders with Python's headers; the second has the part that differs between machines."""
        include = self.root / "usr/include"
        return (*sorted(include.glob("python3.*")), *sorted(include.glob(f"{self.multiarch}/python3.*")))


def sysroot_key(lock: DebianLock, policy: Policy) -> str:
    """Return the key of a lock's root at a policy's age, the same wherever it lies."""
    return make_key(content=content_key(lock), floor=glibc_floor.RECIPE, policy=policy.versions)


def unpacked_sysroot(context: BuildContext, lock: DebianLock, policy: Policy) -> Sysroot:
    """Return a lock's root, unpacked and lowered to a policy.

    Raises:
        ToolchainError: It has no C library to link against.
        DownloadError: A package cannot be fetched.
    """
    root = unpacked_root(
        lock,
        KIND,
        mirrors=debian_mirrors(context),
        store=context.store,
        reporter=context.reporter,
        finish=lambda fresh, _: glibc_floor.apply_floor(fresh, policy),
        finish_key=sysroot_key(lock, policy),
    )
    found = sorted(root.glob("usr/lib/*/libc.so"))
    if not found:
        raise ToolchainError(
            "the sysroot's packages hold no C library to link against",
            where=f"{root}/usr/lib/*/libc.so",
            next_step="add libc6-dev to the lock's suites and run `nox -s lock`",
        )
    return Sysroot(root, found[0].parent.name)
