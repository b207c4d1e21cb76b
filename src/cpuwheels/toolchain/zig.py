"""zig as the cross compiler for macOS: pinned by content, installed into the store, started through small scripts.

Apple's own compiler and SDK run on Macs only. zig is clang with a linker for Mach-O and with macOS' headers and the
list of what its C library exports; it signs what it links, which Apple silicon demands.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uv import find_uv_bin

from cpuwheels.config.downloads import ZIG
from cpuwheels.config.platform_policy import macos_floor
from cpuwheels.core.capture import capture
from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.errors import CommandError, ToolchainError
from cpuwheels.fetch.locked_wheels import wheel_sizes, wheels_place
from cpuwheels.fetch.uv import install_counted, uv_environment
from cpuwheels.toolchain import zig_wrappers
from cpuwheels.toolchain.flags import Flags
from cpuwheels.toolchain.probe import Compiler
from cpuwheels.toolchain.requirements import Identity, identify

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target

KIND = "toolchains"
STUBS = "ziglang/lib/libc/darwin"
"""Where its package has the list of libSystem's symbols."""
RECIPE = 1
"""Increased when the flags change in a way that changes what is built."""

_SECONDS = 60


@dataclass(frozen=True)
class Zig:
    """zig, ready to build for a target.

    Attributes:
        compiler: Its programs, and which clang it is.
        flags: What it always gets for the target.
        folder: The store's entry.
        digest: Key of its bytes, its programs and its flags, wherever they lie.
    """

    compiler: Compiler
    flags: Flags
    folder: Path
    digest: str


def is_needed(target: Target) -> bool:
    """Return whether a target's compiler only runs on a system other than this machine's."""
    return target.compiler.family == "AppleClang" and platform.system() != target.system


def installed_zig(context: BuildContext, lock: Path) -> Zig:
    """Return zig as the compiler of a target, installing it if it is not in the store.

    Args:
        context: The run.
        lock: Requirements file with its version and hashes.

    Raises:
        ToolchainError: The lock is missing, it cannot be installed, or it does not run on this machine.
    """
    target = context.target
    if not lock.is_file():
        raise ToolchainError(
            f"the lock of {target.id}'s cross compiler is missing: {lock.name}",
            where=lock,
            next_step="restore it from git or run nox -s lock",
        )
    log = context.logs / "zig.log"

    def make(folder: Path) -> None:
        context.reporter.info(f"installing zig from locks/{lock.name}")
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        files = lock.with_name(ZIG)
        with wheels_place(files, python, store=context.store, reporter=context.reporter) as place:
            _install(lock, place, folder / zig_wrappers.PACKAGES, log, wheel_sizes(files, python))
        (folder / "bin").mkdir()
        for name, text in zig_wrappers.programs().items():
            program = folder / "bin" / name
            program.write_text(text)
            program.chmod(0o755)

    inputs = {"lock": file_digest(lock), "programs": zig_wrappers.programs()}
    folder = context.store.get(KIND, make_key(zig=zig_wrappers.RECIPE, machine=platform.machine(), **inputs), make)
    flags = target_flags(target)
    return Zig(
        compiler=_compiler(folder, flags),
        flags=flags,
        folder=folder,
        # Without the building machine: zig makes the same output of the same input everywhere.
        digest=make_key(zig=zig_wrappers.RECIPE, recipe=RECIPE, target=triple(target), **inputs),
    )


def triple(target: Target) -> str:
    """Return a target's name as zig wants it, with the oldest system that it is for: ``aarch64-macos.14.0``.

    Raises:
        MatrixError: The target's floor is no macOS policy.
    """
    major, minor = macos_floor(target.floor)
    machine = {"arm64": "aarch64"}.get(target.machine, target.machine)
    return f"{machine}-macos.{major}.{minor}"


def target_flags(target: Target) -> Flags:
    """Return the flags of zig's compilers for a target."""
    return Flags(
        # zig would add traps for undefined behaviour where nothing is optimised.
        compile_flags=("-target", triple(target), "-fno-sanitize=undefined"),
        cxx_flags=(
            # The C++ library is macOS' own, as torch's is. zig would link one of its own, newer than the floor's,
            # and makes its headers assume that everything is there.
            "-U_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS",
            "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1",
            # As Apple's clang, with which torch was built: the newer operator is not known to be there.
            "-fno-sized-deallocation",
            # Upstream's MLA kernel uses FLT_MAX without it; the headers of Apple's C++ library bring it along.
            *("-include", "cfloat"),
        ),
        # Without symbols of its own that nothing binds to.
        link_flags=("-nostdlib++", "-s"),
    )


def _install(lock: Path, place: list[str | Path], folder: Path, log: Path, sizes: Mapping[str, int]) -> None:
    argv: list[str | Path] = [
        find_uv_bin(),
        "pip",
        "install",
        "--target",
        folder,
        "--only-binary",
        ":all:",
        "--no-deps",
    ]
    try:
        install_counted(
            [*argv, *place, "--link-mode", "copy", "--require-hashes", "-r", lock],
            env=uv_environment(),
            log=log,
            sizes=sizes,
        )
    except CommandError as error:
        raise ToolchainError(
            "zig cannot be installed",
            where=lock,
            log=log,
            output=error.output,
            next_step="check that the package index is reachable (UV_DEFAULT_INDEX names another)",
        ) from error


def _compiler(folder: Path, flags: Flags) -> Compiler:
    programs = folder / "bin"
    cxx = programs / "c++"
    zig = folder / zig_wrappers.PACKAGES / "ziglang" / "zig"
    identity = _identity(cxx, flags)
    version = capture([zig, "version"], timeout=_SECONDS).output.strip()
    return Compiler(
        cc=programs / "cc",
        cxx=cxx,
        identity=identity,
        title=f"zig {version}",
        cxx_folders=(),
        own_folders=(),
        static_library=None,
        tools={name: programs / name for name in zig_wrappers.TOOLS},
    )


def _identity(cxx: Path, flags: Flags) -> Identity:
    machine = flags.compile_flags[1]
    answer = capture([cxx, *flags.compile_flags, "-dM", "-E", "-x", "c++", "/dev/null"], timeout=_SECONDS)
    identity = identify(answer.output, machine) if answer.returncode == 0 else None
    if identity is None:
        raise ToolchainError(
            "zig does not run on this machine, or is no compiler",
            where=cxx,
            output=answer.output,
            next_step="remove its entry from the store and build again; a Mac builds with Apple's clang instead",
        )
    return identity
