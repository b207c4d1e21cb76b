"""Writes the smallest request for kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuwheels.config.matrix import CompilerRequirements, Library, Target
from cpuwheels.environment.sealed_env import Environment
from cpuwheels.kernels.request import KernelRequest, configurations
from cpuwheels.kernels.workspace import Workspace
from cpuwheels.source.onednn import OneDnn
from cpuwheels.source.patched import PreparedSource
from cpuwheels.toolchain.result import Toolchain
from sample_source import EPOCH, write_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGET = Target(
    id="x86",
    description="x86-64",
    status="ready",
    system="Linux",
    machine="x86_64",
    floor="manylinux_2_28",
    compiler=CompilerRequirements(family="GNU", minimum="12.3", commands=("g++",)),
    libraries=(Library(name="_C", isa=("avx2",)), Library(name="_C_AVX2", isa=("avx2",))),
    defines={"ENABLE_AMX_FP8": "OFF"},
    cpuinfo="x86-64",
    worst_peak=1 << 30,
    worst_peak_debug=1 << 30,
)
SHARED = TARGET.model_copy(update={"defines": {**TARGET.defines, "CPUWHEELS_SHARED": "dnnl=dnnl_ext"}})
"""A target whose libraries share oneDNN."""

STEERING = (
    "project.cmake",
    "sanitize.cmake",
    "steer.cmake",
    "steer/onednn.cmake",
    "toolchains/gnu.cmake",
    "toolchains/x86.cmake",
    "toolchains/arm.cmake",
)


FIRST = configurations(TARGET)[0]


def toolchain(**changes: Any) -> Toolchain:
    values: dict[str, Any] = {
        "kind": "host",
        "description": "GNU 14",
        "family": "GNU",
        "version": "14.2.0",
        "machine": "x86_64",
        "cc": Path("/tc/gcc"),
        "cxx": Path("/tc/g++"),
        "ar": Path("/tc/ar"),
        "ranlib": Path("/tc/ranlib"),
        "strip": Path("/tc/strip"),
        "objcopy": Path("/tc/objcopy"),
        "objdump": Path("/tc/objdump"),
        "assembler": Path("/tc/as"),
        "sysroot": Path("/sysroot"),
        "compile_flags": ("--sysroot=/sysroot", "-B/tc"),
        "cxx_flags": ("-nostdinc++",),
        "link_flags": ("-nostdlib++",),
        "cxx_libraries": ("/tc/libstdc++.a",),
        "prefix_maps": ((Path("/tc"), "/usr/src/tc"),),
        "library_folders": (),
        "python_include": (Path("/sysroot/python"), Path("/sysroot/multiarch")),
        "digest": "tc",
        "refused": (),
    }
    return Toolchain(**values | changes)


def environment(**changes: Any) -> Environment:
    values: dict[str, Any] = {
        "python": Path("/env/bin/python"),
        "python_version": "3.11",
        "site_packages": Path("/env/site"),
        "torch_version": "2.13.0+cpu",
        "torch_digest": "torch",
        "torch_from": "here",
        "torch_pinned": True,
        "torch_alternate": False,
        "torch_folder": Path("/env/site/torch"),
        "tools": {"cmake": "4.0.0", "ninja": "1.13"},
    }
    return Environment(**values | changes)


def kernel_request(base: Path, changes: Mapping[str, str | None] | None = None, **replaced: Any) -> KernelRequest:
    """Write source, steering and oneDNN below a folder and return their request."""
    source = write_tree(base / "source", changes)
    for name in STEERING:
        (base / "root" / "cmake" / name).parent.mkdir(parents=True, exist_ok=True)
        (base / "root" / "cmake" / name).write_text(name)
    (base / "onednn").mkdir(exist_ok=True)
    (base / "onednn" / "CMakeLists.txt").write_text("project(oneDNN)\n")
    values: dict[str, Any] = {
        "root": base / "root",
        "target": TARGET,
        "source": PreparedSource("0.32.0", source, EPOCH, ()),
        "toolchain": toolchain(),
        "environment": environment(),
        "onednn": OneDnn(base / "onednn", "v3.13", "c" * 40, "c" * 40, "pinned"),
    }
    return KernelRequest(**values | replaced)


def write_library(workspace: Workspace, calls: str) -> None:
    """Write what the shared oneDNN of a finished build consists of.

    Args:
        workspace: The first configuration.
        calls: The symbols that it is called for, one per line.
    """
    build = workspace.first_build
    (build / "_deps" / "onednn-build" / "include").mkdir(parents=True, exist_ok=True)
    (build / "_deps" / "onednn-build" / "include" / "dnnl_config.h").write_text("// options\n")
    (build / "libcpuwheels_dnnl.so").write_text("oneDNN")
    workspace.libraries_list.write_text("cpuwheels_dnnl\n")
    workspace.onednn_calls.parent.mkdir(exist_ok=True)
    workspace.onednn_calls.write_text(calls)
