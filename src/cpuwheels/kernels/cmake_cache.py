"""Settings of a CMake build as the files and variables through which they reach it."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.launchers import Launchers
    from cpuwheels.toolchain.result import Toolchain

KERNEL_EPOCH = "315532800"
"""1980-01-01, the oldest time a zip archive can hold, for kernels that ask the compiler for the date."""

STABLE_ROOT = "/usr/src/cpuwheels"
"""What paths of a build are called inside its results."""


def build_variables(
    environment: Environment, folder: Path, values: Path, extra: Mapping[str, str], launchers: Launchers
) -> dict[str, str]:
    """Return the environment for CMake and ninja: nothing of the caller's settings but PATH and HOME.

    Args:
        environment: With CMake and ninja.
        folder: All of the build lies below it.
        values: File with the text of `toolchain_text`.
        extra: Further variables that this build needs.
        launchers: Commands in front of compilers and linkers.
    """
    return closed_environment(
        {
            # The same for every source: the kernels' key does not hold the source's age.
            "SOURCE_DATE_EPOCH": KERNEL_EPOCH,
            "CPUWHEELS_TOOLCHAIN_VALUES": str(values),
            "NINJA_STATUS": "[%f/%t] ",
            # No tool may take a repository around the cache for the source's own.
            "GIT_CEILING_DIRECTORIES": str(folder),
            **extra,
            **launchers.environment,
        },
        path_first=[environment.scripts],
    )


def cache_text(entries: Mapping[str, str]) -> str:
    """Return the text of an initial cache (``cmake -C``)."""
    return "".join(f'set({name} {_quote(value)} CACHE STRING "")\n' for name, value in entries.items())


def toolchain_text(
    toolchain: Toolchain, maps: Mapping[Path, str], build: Path, *, link_flags: Sequence[str] = ()
) -> str:
    """Return the values that ``cmake/toolchains/gnu.cmake`` reads.

    Args:
        toolchain: Compilers and sysroot.
        maps: What folders of this build are called inside its results.
        build: The build folder.
        link_flags: Flags in front of the toolchain's own.
    """
    roots = [(str(path), name) for path, name in maps.items()]
    roots += [(str(path), name) for path, name in toolchain.prefix_maps]
    # A compiler cache names files from the build folder on, so that neither folder nor machine matters.
    roots += [(os.path.relpath(path, build), name) for path, name in roots if path != str(build)]
    # Flags reach the shell as CMake writes them, so each is quoted here; paths may hold blanks.
    values: Mapping[str, str] = {
        "CPUWHEELS_CC": str(toolchain.cc),
        "CPUWHEELS_CXX": str(toolchain.cxx),
        "CPUWHEELS_AR": str(toolchain.ar),
        "CPUWHEELS_RANLIB": str(toolchain.ranlib),
        "CPUWHEELS_STRIP": str(toolchain.strip),
        "CPUWHEELS_SYSROOT": str(toolchain.sysroot or ""),
        "CPUWHEELS_COMPILE_FLAGS": shlex.join(toolchain.compile_flags),
        "CPUWHEELS_CXX_FLAGS": shlex.join(toolchain.cxx_flags),
        "CPUWHEELS_LINK_FLAGS": shlex.join([*link_flags, *toolchain.link_flags]),
        "CPUWHEELS_CXX_LIBRARIES": shlex.join(toolchain.cxx_libraries),
        "CPUWHEELS_PREFIX_MAPS": ";".join(shlex.quote(f"{path}={name}") for path, name in roots),
    }
    return "".join(f"set({name} {_quote(value)})\n" for name, value in values.items())


def _quote(value: str) -> str:
    """Return a CMake bracket argument, in which nothing is expanded."""
    return f"[==[{value}]==]"
