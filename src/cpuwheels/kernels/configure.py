"""Configuring upstream's CMake project: settings go through files, not through a long command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.kernels.cmake import run_cmake
from cpuwheels.kernels.cmake_cache import STABLE_ROOT, build_variables, cache_text, toolchain_text
from cpuwheels.kernels.confined import TORCH_PLACE, require_files
from cpuwheels.kernels.request import OPTIMISATION
from cpuwheels.kernels.sanitizers import SANITIZERS, STEERING

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.kernels.launchers import Launchers
    from cpuwheels.kernels.onednn_library import OneDnnLibrary
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace


def configure(
    request: KernelRequest, workspace: Workspace, launchers: Launchers, log: Path, library: OneDnnLibrary | None = None
) -> None:
    """Run CMake's configuration unless the same settings were configured before.

    Args:
        request: What is built.
        workspace: Where.
        launchers: Commands put in front of every compiler and linker.
        log: CMake's output.
        library: A finished oneDNN for the first configuration, which makes its own otherwise.

    Raises:
        ConfigureError: CMake stopped; its output is in the message.
    """
    settings = init_cache(request, workspace, launchers, has_onednn=library is not None)
    values = toolchain_values(request, workspace)
    if workspace.is_configured(settings, values):
        return
    workspace.forget_configuration()
    if library and workspace.is_first:
        with storage_errors(workspace.build):
            library.place(workspace.build)
    if openmp := sysroot_openmp(request):
        with storage_errors(workspace.build):
            workspace.openmp.parent.mkdir(parents=True)
            workspace.openmp.symlink_to(openmp)
    write_atomic(workspace.init_cache, settings)
    write_atomic(workspace.toolchain_values, values)
    run_cmake(
        f"the kernels of vLLM {request.source.version}",
        request.environment,
        workspace.source,
        workspace.build,
        workspace.init_cache,
        env=build_environment_variables(request, workspace, launchers) | _answers(request),
        launchers=launchers,
        log=log,
        next_step="read the log; a new upstream version may need another compiler or another patch",
    )
    require_files([workspace.modules_list, workspace.libraries_list])
    workspace.mark_configured()


def sysroot_openmp(request: KernelRequest) -> Path | None:
    """Return the sysroot's OpenMP library if modules have to be linked to it and it lacks the linker's name.

    Upstream links the one that torch brings. Debian's torch uses the system's, and this one may need a newer C library
    than the target's floor. Both have the same soname.
    """
    if not request.environment.foreign or request.target.system != "Linux":
        return None
    folders = request.toolchain.library_folders
    if any((folder / "libgomp.so").is_file() for folder in folders):
        return None
    return next((path for folder in folders if (path := folder / "libgomp.so.1").is_file()), None)


def build_environment_variables(request: KernelRequest, workspace: Workspace, launchers: Launchers) -> dict[str, str]:
    """Return the environment for CMake and ninja: nothing of the caller's settings but PATH and HOME."""
    return build_variables(
        request.environment, workspace.folder, workspace.toolchain_values, {"VLLM_TARGET_DEVICE": "cpu"}, launchers
    )


def _answers(request: KernelRequest) -> dict[str, str]:
    """Return the variables with which programs that CMake starts find what answers for torch before torch itself."""
    if request.environment.foreign:
        return {}  # the environment's own is such a package already
    return {"PYTHONPATH": str(TORCH_PLACE), "PYTHONDONTWRITEBYTECODE": "1"}


def init_cache(request: KernelRequest, workspace: Workspace, launchers: Launchers, *, has_onednn: bool = False) -> str:
    """Return the text of the initial cache (``cmake -C``).

    Args:
        request: What is built.
        workspace: Where.
        launchers: Commands put in front of every compiler and linker.
        has_onednn: Whether the first configuration is linked with a finished oneDNN, as all others are.
    """
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
        # Torch for another machine: upstream's questions about it are answered by the steering.
        "CPUWHEELS_TORCH": str(environment.torch_folder) if environment.foreign else "",
        "CPUWHEELS_CPUINFO": str(workspace.cpuinfo),
        "CPUWHEELS_BUILT": "" if workspace.is_first and not has_onednn else str(workspace.first_build),
        "CPUWHEELS_ACL": str(workspace.acl) if request.acl and request.acl.commit else "",
        "CPUWHEELS_ONEDNN_SOURCE": str(workspace.onednn),
        "CPUWHEELS_ONEDNN_TAG": request.onednn.tag if request.onednn else "",
        "CPUWHEELS_ONEDNN_UNUSED": str(workspace.unused),
    }
    if request.sanitize:
        entries["CMAKE_PROJECT_TOP_LEVEL_INCLUDES"] += f";{cmake / STEERING}"
        entries["CPUWHEELS_SANITIZE"] = ";".join(SANITIZERS[request.sanitize].flags)
    if sysroot_openmp(request):
        entries["OPEN_MP"] = str(workspace.openmp)
    entries |= launchers.variables()
    entries |= request.target.defines
    return cache_text(entries)


def toolchain_values(request: KernelRequest, workspace: Workspace) -> str:
    """Return the values that ``cmake/toolchains/gnu.cmake`` reads."""
    maps = {
        workspace.source: f"{STABLE_ROOT}/vllm",
        workspace.onednn: f"{STABLE_ROOT}/oneDNN",
        workspace.acl: f"{STABLE_ROOT}/acl",
        workspace.build: f"{STABLE_ROOT}/build",
        **{folder: f"{STABLE_ROOT}/build/{folder.name}" for folder in workspace.generated},
        request.environment.torch_folder.parent: f"{STABLE_ROOT}/site-packages",
    }
    # torch's libgomp replaces the toolchain's (upstream makes this folder): one OpenMP run time per process.
    shim = [f"-L{workspace.openmp.parent}"] if request.target.system == "Linux" else []
    return toolchain_text(request.toolchain, maps, workspace.build, link_flags=shim)
