"""The toolchain of a macOS target: Apple's clang on a Mac, zig anywhere else.

Both build against Python's pinned headers and are checked against zig's list of what macOS's C library exports, so
that what is refused does not depend on the Mac that builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.host import runs_here
from cpuwheels.config.platform_policy import macos_floor
from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain import zig, zig_wrappers
from cpuwheels.toolchain.debian_compiler import KIND, unpacked_programs
from cpuwheels.toolchain.flags import Flags, prefix_maps
from cpuwheels.toolchain.host_compilers import verdicts
from cpuwheels.toolchain.probe import Compiler, compiler_digest
from cpuwheels.toolchain.python_headers import headers_key, python_headers
from cpuwheels.toolchain.result import Toolchain
from cpuwheels.toolchain.zig_wrappers import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target

RECIPE = 1
"""Increased when Apple's clang is given other flags."""


def macos_toolchain(context: BuildContext, environ: Mapping[str, str]) -> Toolchain:
    """Return the toolchain to build a macOS target with on this machine.

    Args:
        context: The run; its target names the locks of zig, of Python's headers and of the binutils.
        environ: May name a compiler of a Mac.

    Raises:
        ToolchainError: A lock is not named, or no compiler meets the requirements.
        DownloadError: A package cannot be fetched.
    """
    target, root = context.target, context.root
    if target.zig is None or target.python_headers is None:
        raise ToolchainError(
            f"target '{target.id}' names no lock of zig and of Python's headers",
            where="matrix.yaml: zig, python_headers",
            next_step="name both there",
        )
    found = zig.installed_zig(context, context.lock(f"{target.zig}.txt"))
    lock = load_lock(root, target.python_headers)
    headers = python_headers(context, lock)
    judges = _judges(context)
    refused: tuple[str, ...] = ()
    maps: list[tuple[Path, str]] = [(headers, "/python")]
    if zig.is_needed(target):
        compiler, flags = found.compiler, found.flags
        inputs, origin = found.digest, f"from locks/{target.zig}.txt"
        maps.append((found.folder, "/toolchain"))
    else:
        compiler, refused = _apple(target, environ)
        flags = apple_flags(target)
        inputs, origin = make_key(recipe=RECIPE, flags=flags, compiler=compiler_digest(compiler)), "of this machine"
        maps += [(folder, f"/toolchain/c++/{number}") for number, folder in enumerate(compiler.cxx_folders)]
    return Toolchain(
        kind="zig" if zig.is_needed(target) else "host",
        description=f"{compiler.identity} {origin} ({compiler.title})",
        family=compiler.identity.family,
        version=compiler.identity.version,
        cc=compiler.cc,
        cxx=compiler.cxx,
        **{name: compiler.tools[name] for name in zig_wrappers.TOOLS},
        machine=target.machine,
        sysroot=None,
        compile_flags=flags.compile_flags,
        cxx_flags=flags.cxx_flags,
        link_flags=flags.link_flags,
        cxx_libraries=flags.cxx_libraries,
        prefix_maps=prefix_maps(maps),
        library_folders=(found.folder / PACKAGES / zig.STUBS,),
        python_include=(headers,),
        digest=make_key(compiler=inputs, python_headers=headers_key(lock)),
        refused=refused,
        **judges,
    )


def _judges(context: BuildContext) -> dict[str, Path]:
    """Return the programs that instructions are checked with, as attributes; none where they do not run."""
    target = context.target
    lock = load_lock(context.root, target.binutils) if target.binutils else None
    if lock is None or not runs_here(lock):
        return {}
    folder = unpacked_programs(context, lock, KIND) / "usr" / "bin"
    found = {}
    for attribute, name in {"objdump": "objdump", "assembler": "as"}.items():
        path = next(iter(sorted(folder.glob(f"*-{name}"))), None)
        if path is None:
            raise ToolchainError(
                f"the packages hold no {name}",
                where=folder,
                next_step=f"correct locks/{target.binutils}.yaml and run `nox -s lock`",
            )
        found[attribute] = path
    return found


def apple_flags(target: Target) -> Flags:
    """Return the flags of Apple's clang for a target."""
    major, minor = macos_floor(target.floor)
    return Flags(
        compile_flags=("-arch", target.machine, f"-mmacosx-version-min={major}.{minor}"),
        # No debug symbols and no local ones: taking them out later would break the signature.
        link_flags=("-Wl,-S", "-Wl,-x"),
    )


def _apple(target: Target, environ: Mapping[str, str]) -> tuple[Compiler, tuple[str, ...]]:
    refused: list[str] = []
    for verdict in verdicts(target, environ):
        if verdict.compiler is not None:
            return verdict.compiler, tuple(refused)
        refused.append(str(verdict))
    gate = target.compiler
    raise ToolchainError(
        f"no compiler of this machine can build {target.id}: it needs {gate.family} {gate.minimum} or newer",
        where=f"CXX, CC and PATH ({', '.join(gate.commands)})",
        output="\n".join(refused) or "none of them is there",
        next_step="install Xcode's command line tools: xcode-select --install",
    )
