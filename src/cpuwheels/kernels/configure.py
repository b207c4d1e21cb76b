"""Configuring upstream's CMake project: settings go through files, not through a long command line."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from cpuwheels.errors import CommandError, ConfigureError
from cpuwheels.kernels.request import OPTIMISATION
from cpuwheels.process import closed_environment, run
from cpuwheels.storage import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.kernels.launchers import Launchers
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace

KERNEL_EPOCH = "315532800"
"""1980-01-01, the oldest time a zip archive can hold, for kernels that ask the compiler for the date."""

STABLE_ROOT = "/usr/src/cpuwheels"
"""What paths of a build are called inside its results."""


def configure(request: KernelRequest, workspace: Workspace, launchers: Launchers, log: Path) -> None:
    """Run CMake's configuration unless the same settings were configured before.

    Args:
        request: What is built.
        workspace: Where.
        launchers: Commands put in front of every compiler and linker.
        log: CMake's output.

    Raises:
        ConfigureError: CMake stopped; its own words are in the message.
    """
    settings = init_cache(request, workspace, launchers)
    values = toolchain_values(request, workspace)
    if workspace.is_configured(settings, values):
        return
    workspace.forget_configuration()
    write_atomic(workspace.init_cache, settings)
    write_atomic(workspace.toolchain_values, values)
    try:
        run(
            [
                request.environment.scripts / "cmake",
                *("-S", workspace.source, "-B", workspace.build, "-G", "Ninja"),
                *("-C", workspace.init_cache, "-Wno-dev", "--no-warn-unused-cli"),
            ],
            log=log,
            env=build_environment_variables(request, workspace, launchers) | launchers.variables(),
        )
    except CommandError as error:
        raise ConfigureError(
            f"CMake could not configure the kernels of vLLM {request.source.version}",
            where=workspace.source,
            log=log,
            output=error.output,
            next_step="read the log; a new upstream version may need another compiler or another patch",
        ) from error
    workspace.mark_configured()


def build_environment_variables(request: KernelRequest, workspace: Workspace, launchers: Launchers) -> dict[str, str]:
    """Return the environment for CMake and ninja: nothing of the caller's settings but PATH and HOME."""
    return closed_environment(
        {
            "VLLM_TARGET_DEVICE": "cpu",
            # The same for every source: the kernels' key does not hold the source's age.
            "SOURCE_DATE_EPOCH": KERNEL_EPOCH,
            "CPUWHEELS_TOOLCHAIN_VALUES": str(workspace.toolchain_values),
            "NINJA_STATUS": "[%f/%t] ",
            # No tool may take a repository around the cache for the source's own.
            "GIT_CEILING_DIRECTORIES": str(workspace.folder),
            **launchers.environment,
        },
        path_first=[request.environment.scripts],
    )


def init_cache(request: KernelRequest, workspace: Workspace, launchers: Launchers) -> str:
    """Return the text of the initial cache (``cmake -C``)."""
    environment, cmake = request.environment, request.root / "cmake"
    debug = " -g" if request.debug_symbols else ""
    entries: dict[str, str] = {
        "CMAKE_TOOLCHAIN_FILE": str(cmake / "toolchains" / f"{request.target.id}.cmake"),
        "CMAKE_PROJECT_TOP_LEVEL_INCLUDES": str(cmake / "steer.cmake"),
        # Upstream builds oneDNN as Release and itself as RelWithDebInfo; the latter loses its -g here.
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "CMAKE_C_FLAGS_RELWITHDEBINFO": OPTIMISATION + debug,
        "CMAKE_CXX_FLAGS_RELWITHDEBINFO": OPTIMISATION + debug,
        "CMAKE_C_VISIBILITY_PRESET": "hidden",
        "CMAKE_CXX_VISIBILITY_PRESET": "hidden",
        "CMAKE_VISIBILITY_INLINES_HIDDEN": "ON",
        "CMAKE_DISABLE_FIND_PACKAGE_CUDA": "ON",
        "CMAKE_DISABLE_FIND_PACKAGE_Git": "ON",
        "CMAKE_MAKE_PROGRAM": str(environment.scripts / "ninja"),
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_PYTHON_EXECUTABLE": str(environment.python),
        "CPUWHEELS_PYTHON": str(environment.python),
        "CPUWHEELS_PYTHON_VERSION": environment.python_version,
        "CPUWHEELS_PYTHON_INCLUDE_DIRS": ";".join(map(str, request.toolchain.python_include)),
        "CPUWHEELS_CPUINFO": str(workspace.cpuinfo),
        "CPUWHEELS_ONEDNN_SOURCE": str(workspace.onednn),
        "CPUWHEELS_ONEDNN_TAG": request.onednn.tag,
        "CPUWHEELS_ONEDNN_UNUSED": str(workspace.unused),
    }
    entries |= launchers.variables()
    entries |= request.target.defines
    return "".join(f'set({name} {_quote(value)} CACHE STRING "")\n' for name, value in entries.items())


def toolchain_values(request: KernelRequest, workspace: Workspace) -> str:
    """Return the values that ``cmake/toolchains/gnu.cmake`` reads."""
    toolchain = request.toolchain
    maps = {
        workspace.source: f"{STABLE_ROOT}/vllm",
        workspace.onednn: f"{STABLE_ROOT}/oneDNN",
        workspace.build: f"{STABLE_ROOT}/build",
        **{folder: f"{STABLE_ROOT}/build/{folder.name}" for folder in workspace.generated},
        request.environment.site_packages: f"{STABLE_ROOT}/site-packages",
    }
    roots = [(str(path), name) for path, name in maps.items()]
    roots += [(str(path), name) for path, name in toolchain.prefix_maps]
    # A compiler cache names files from the build folder on, so that neither folder nor machine matters.
    roots += [(os.path.relpath(path, workspace.build), name) for path, name in roots if path != str(workspace.build)]
    # torch's libgomp stands in for the toolchain's (upstream makes this folder): one OpenMP run time per process.
    # Flags reach the shell as CMake writes them, so each is quoted here; paths may hold blanks.
    shim = [f"-L{workspace.build}/gomp_shim"] if request.target.system == "Linux" else []
    link_flags = [*shim, *toolchain.link_flags]
    values: Mapping[str, str] = {
        "CPUWHEELS_CC": str(toolchain.cc),
        "CPUWHEELS_CXX": str(toolchain.cxx),
        "CPUWHEELS_AR": str(toolchain.ar),
        "CPUWHEELS_RANLIB": str(toolchain.ranlib),
        "CPUWHEELS_STRIP": str(toolchain.strip),
        "CPUWHEELS_SYSROOT": str(toolchain.sysroot or ""),
        "CPUWHEELS_COMPILE_FLAGS": shlex.join(toolchain.compile_flags),
        "CPUWHEELS_CXX_FLAGS": shlex.join(toolchain.cxx_flags),
        "CPUWHEELS_LINK_FLAGS": shlex.join(link_flags),
        "CPUWHEELS_CXX_LIBRARIES": shlex.join(toolchain.cxx_libraries),
        "CPUWHEELS_PREFIX_MAPS": ";".join(shlex.quote(f"{path}={name}") for path, name in roots),
    }
    return "".join(f"set({name} {_quote(value)})\n" for name, value in values.items())


def _quote(value: str) -> str:
    """Return a CMake bracket argument, in which nothing is expanded."""
    return f"[==[{value}]==]"
