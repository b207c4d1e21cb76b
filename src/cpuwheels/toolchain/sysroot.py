"""The root whose headers and libraries the kernels are built against, unpacked from its lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.debian.unpack import unpacked_root
from cpuwheels.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.model.lock import DebianLock
    from cpuwheels.store import Store

KIND = "sysroots"


@dataclass(frozen=True)
class Sysroot:
    """An unpacked root.

    Attributes:
        root: Stands for ``/``.
        multiarch: Debian's name of the machine, in the paths below it.
    """

    root: Path
    multiarch: str

    @property
    def library_folders(self) -> tuple[Path, ...]:
        """Folders with its libraries; before Debian 12 the C library's are not below ``usr``."""
        folders = (self.root / "usr/lib" / self.multiarch, self.root / "lib" / self.multiarch)
        return tuple(folder for folder in folders if folder.is_dir())

    @property
    def cxx_library(self) -> Path:
        """Its shared C++ library."""
        return self.root / "usr/lib" / self.multiarch / "libstdc++.so.6"

    @property
    def python_include(self) -> tuple[Path, ...]:
        """Folders with Python's headers; the second has the part that differs between machines."""
        include = self.root / "usr/include"
        return (*sorted(include.glob("python3.*")), *sorted(include.glob(f"{self.multiarch}/python3.*")))


def unpacked_sysroot(
    lock: DebianLock, *, mirrors: Sequence[str], store: Store, reporter: Reporter
) -> Sysroot:
    """Return a lock's root, unpacked.

    Raises:
        ToolchainError: It has no C library to link against.
        DownloadError: A package cannot be fetched.
    """
    root = unpacked_root(lock, KIND, mirrors=mirrors, store=store, reporter=reporter)
    found = sorted(root.glob("usr/lib/*/libc.so"))
    if not found:
        raise ToolchainError(
            "the sysroot's packages hold no C library to link against",
            where=f"{root}/usr/lib/*/libc.so",
            next_step="add libc6-dev to the lock's suites and run `nox -s lock`",
        )
    return Sysroot(root, found[0].parent.name)
