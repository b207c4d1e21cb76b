"""The model of ``locks/<name>.yaml``: a set of Debian packages pinned by content."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from cpuwheels.core.errors import MatrixError
from cpuwheels.core.models import Sha256, Strict, load_yaml

LICENCES = "licenses"
"""Lock of the packages with licences of what is in a wheel that no other lock has."""

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's names of architectures that the kernel names differently."""

_Below = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9+._~-]*(/[A-Za-z0-9][A-Za-z0-9+._~-]*)*$", max_length=512)
]
"""A path without ``..``, hidden names or characters that a URL would decode."""

_PYTHON = re.compile(r"python(3\.\d+)-minimal")


class DebianPackage(Strict):
    """One binary package."""

    name: str
    version: str
    path: _Below
    """Path below the mirror."""
    size: int = Field(gt=0)
    """Bytes."""
    sha256: Sha256


class DebianLock(Strict):
    """A resolved set of packages, unpacked over one another into one root.

    ``nox -s lock`` writes ``packages``; everything above it is what they are resolved from.
    """

    suites: dict[str, tuple[str, ...]]
    """Suite → packages to take from it together with what they depend on."""
    architecture: str
    """Debian's name, such as ``amd64``."""
    dependencies: bool = True
    """Whether what the packages depend on is taken too."""
    leave_out: tuple[str, ...] = ()
    """Dependencies that are not needed for compiling."""
    leave_out_files: tuple[str, ...] = ()
    """Files that are not unpacked: glob patterns of paths below the root, ``*`` also matching ``/``."""
    keep_files: tuple[str, ...] = ()
    """Files that are unpacked although `leave_out_files` or the list of unused files names them: glob patterns."""
    links: dict[str, str] = Field(default_factory=dict)
    """Links that the packages lack: path below the root → what it names, seen from the link's own folder."""
    packages: tuple[DebianPackage, ...] = ()

    @property
    def machine(self) -> str:
        """The machine that the packages' programs run on, as the kernel names it."""
        return _MACHINES.get(self.architecture, self.architecture)


def load_lock(root: Path, name: str) -> DebianLock:
    """Read ``locks/<name>.yaml`` from the project's folder.

    Raises:
        MatrixError: It is missing or does not fit the model.
    """
    return load_yaml(root / "locks" / f"{name}.yaml", DebianLock)


def glibc_of(lock: DebianLock) -> int:
    """Return the version of a root's C library: 36 for 2.36.

    Raises:
        MatrixError: The root has none.
    """
    for package in lock.packages:
        if package.name in {"libc6", "libc6.1"}:
            return int(package.version.split(":")[-1].split("-")[0].split(".")[1])
    raise _lacks("libc6")


def python_of(lock: DebianLock) -> str:
    """Return the version of a root's Python, such as ``3.14``.

    Raises:
        MatrixError: The root has none.
    """
    for package in lock.packages:
        if found := _PYTHON.fullmatch(package.name):
            return found[1]
    raise _lacks("python3")


def _lacks(package: str) -> MatrixError:
    return MatrixError(
        f"the root has no {package}", where="locks/: the target's root", next_step="add it to the lock's suites"
    )
