"""Choosing a toolchain: a good compiler of this machine, else the pinned one, with one sysroot for both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.host import runs_here
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import ToolchainError
from cpuwheels.fetch.debian.root import content_key
from cpuwheels.toolchain import debian_compiler
from cpuwheels.toolchain.compat_library import compat_library, sources_digest
from cpuwheels.toolchain.flags import Flags, compile_flags, floor_flags, prefix_maps
from cpuwheels.toolchain.host_compilers import host_commands, verdicts
from cpuwheels.toolchain.macos import macos_toolchain
from cpuwheels.toolchain.probe import Compiler, compiler_digest
from cpuwheels.toolchain.result import Toolchain
from cpuwheels.toolchain.sysroot import Sysroot, sysroot_key, unpacked_sysroot
from cpuwheels.toolchain.zig import is_needed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.options import ToolchainChoice

FLAGS_RECIPE = 2
"""Increased when the flags change in a way that changes what is built."""


_ATTRIBUTES = {"as": "assembler"}
"""Names that tools have as attributes, where Python does not allow their own."""


@dataclass(frozen=True)
class _Picked:
    """A compiler with what names it."""

    kind: Literal["host", "debian"]
    compiler: Compiler
    digest: str
    flags: tuple[str, ...]
    maps: tuple[tuple[Path, str], ...]
    refused: tuple[str, ...]


def resolve_toolchain(context: BuildContext, environ: Mapping[str, str] | None = None) -> Toolchain:
    """Return the toolchain to build a target with, unpacking what it needs.

    Args:
        context: The run. Its option ``toolchain`` forces ``host`` or ``debian``; ``auto`` takes a host compiler that
            meets the target's requirements, else the target's lock. Its reporter prints which compilers are refused
            and why.
        environ: The environment; this process's if not given.

    Raises:
        ToolchainError: No compiler meets the requirements, or one could not be prepared.
        DownloadError: A package cannot be fetched.
        UsageError: ``CPUWHEELS_DEBIAN_MIRROR`` is not a URL.
    """
    environ = os.environ if environ is None else environ
    target, root = context.target, context.root
    if target.compiler.family == "AppleClang":
        return macos_toolchain(context, environ)
    picked = _pick(context, environ)
    if target.sysroot is None:
        return _result(target, picked, Flags(), sysroot=None, digest=picked.digest, maps=picked.maps)
    lock = load_lock(root, target.sysroot)
    policy = load_policy(target.floor, target.machine)
    sysroot = unpacked_sysroot(context, lock, policy)
    inputs = make_key(compiler=picked.digest, sysroot=sysroot_key(lock, policy))
    c_flags = compile_flags(sysroot, picked.compiler, picked.flags)
    compat = compat_library(context, picked.compiler, c_flags, inputs)
    flags = floor_flags(sysroot, picked.compiler, compat, picked.flags)
    digest = make_key(recipe=FLAGS_RECIPE, inputs=inputs, compat=sources_digest())
    maps = (*picked.maps, (sysroot.root, "/sysroot"), (compat.parent, "/toolchain/compat"))
    return _result(target, picked, flags, sysroot=sysroot, digest=digest, maps=maps)


def check_choice(target: Target, choice: ToolchainChoice, root: Path, environ: Mapping[str, str]) -> None:
    """Raise before anything is fetched if neither a compiler of this machine nor the pinned one can be used.

    Raises:
        ToolchainError: Each compiler is listed with the reason.
        MatrixError: The lock of the pinned compiler cannot be read.
    """
    if choice == "auto" and is_needed(target):
        return  # its own compiler runs on another system alone; the pinned one is installed
    pinned = _pinned(target, root)
    if choice == "debian" and pinned is not None:
        debian_compiler.require_runnable(pinned, target)
    elif choice == "host" or pinned is None or not runs_here(pinned):
        found = list(verdicts(target, environ))
        if not any(verdict.compiler for verdict in found):
            raise _none_good(target, [str(verdict) for verdict in found], pinned)


def _pinned(target: Target, root: Path) -> DebianLock | None:
    return None if target.toolchain is None else load_lock(root, target.toolchain)


def _pick(context: BuildContext, environ: Mapping[str, str]) -> _Picked:
    target, choice, reporter = context.target, context.options.toolchain, context.reporter
    refused: list[str] = []
    if choice != "debian":
        for verdict in verdicts(target, environ):
            if verdict.compiler is not None:
                for line in refused:
                    reporter.info(f"not used: {line}")
                reporter.info(f"compiler of this machine: {verdict}")
                return _host(verdict.compiler, tuple(refused))
            refused.append(str(verdict))
    lock = _pinned(target, context.root)
    if choice == "host" or lock is None or (choice == "auto" and not runs_here(lock)):
        raise _none_good(target, refused, lock)
    for line in refused:
        reporter.announce(f"not used: {line}; the pinned compiler locks/{target.toolchain}.yaml is used instead")
    if choice == "auto" and not refused:
        commands = ", ".join(host_commands(target))
        reporter.info(f"this machine has no {commands}; using the pinned locks/{target.toolchain}.yaml")
    compiler, folder = debian_compiler.unpacked_compiler(context, lock)
    return _Picked(
        kind="debian",
        compiler=compiler,
        digest=make_key(content=content_key(lock), relocation=debian_compiler.RECIPE),
        flags=debian_compiler.binutils_flags(folder),
        maps=((folder, "/toolchain"),),
        refused=tuple(refused),
    )


def _host(compiler: Compiler, refused: tuple[str, ...]) -> _Picked:
    folders = [(folder, f"/toolchain/c++/{number}") for number, folder in enumerate(compiler.cxx_folders)]
    folders += [(folder, f"/toolchain/include/{number}") for number, folder in enumerate(compiler.own_folders)]
    return _Picked("host", compiler, compiler_digest(compiler), (), tuple(folders), refused)


def _none_good(target: Target, refused: list[str], pinned: DebianLock | None) -> ToolchainError:
    gate = target.compiler
    instead = ""
    if pinned is not None:
        instead = (
            ", or run with --toolchain debian, which unpacks one without root"
            if runs_here(pinned)
            else f", or build on Linux {pinned.machine}, where the pinned compiler locks/{target.toolchain}.yaml runs"
        )
    return ToolchainError(
        f"no compiler of this machine can build {target.id}: it needs {gate.family} {gate.minimum} or newer",
        where=f"CXX, CC and PATH ({', '.join(host_commands(target))})",
        output="\n".join(refused) or "none of them is there",
        next_step=f"install one and name it in CXX{instead}",
    )


def _result(
    target: Target,
    picked: _Picked,
    flags: Flags,
    *,
    sysroot: Sysroot | None,
    digest: str,
    maps: tuple[tuple[Path, str], ...],
) -> Toolchain:
    compiler = picked.compiler
    origin = "of this machine" if picked.kind == "host" else f"from locks/{target.toolchain}.yaml"
    return Toolchain(
        kind=picked.kind,
        description=f"{compiler.identity} {origin} ({compiler.title})",
        family=compiler.identity.family,
        version=compiler.identity.version,
        cc=compiler.cc,
        cxx=compiler.cxx,
        **{_ATTRIBUTES.get(name, name): path for name, path in compiler.tools.items()},
        machine=target.machine,
        sysroot=None if sysroot is None else sysroot.root,
        compile_flags=flags.compile_flags,
        cxx_flags=flags.cxx_flags,
        link_flags=flags.link_flags,
        cxx_libraries=flags.cxx_libraries,
        prefix_maps=prefix_maps(maps),
        library_folders=() if sysroot is None else sysroot.library_folders,
        python_include=() if sysroot is None else sysroot.python_include,
        digest=digest,
        refused=picked.refused,
    )
