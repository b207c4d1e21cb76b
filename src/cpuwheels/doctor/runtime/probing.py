"""Asking the running system what no file tells."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
from ctypes.util import find_library
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from cpuwheels.core.capture import capture
from cpuwheels.doctor.runtime.machine import Probe
from cpuwheels.toolchain.native_helpers import cpu_at_hand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.core.store import Store

_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236, "s390x": 269, "ppc64le": 260, "riscv64": 236}
"""Number of the system call, by machine (Linux: arch/*/…/syscall*.tbl, include/uapi/asm-generic/unistd.h)."""

_LIBRARIES = ("gomp", "iomp5", "omp", "tcmalloc_minimal", "tcmalloc")

KEPT = (
    "CPUWHEELS_ISA",
    "CPU_VISIBLE_MEMORY_NODES",
    "DNNL_MAX_CPU_ISA",
    "OMP_NUM_THREADS",
    "ONEDNN_MAX_CPU_ISA",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_NUM_OF_RESERVED_CPU",
    "VLLM_CPU_OMP_THREADS_BIND",
    "VLLM_CPU_SGL_KERNEL",
    "VLLM_TARGET_DEVICE",
)
"""Variables that change what vLLM does here; none of them holds a path."""

_PRELOAD = "LD_PRELOAD"
_COMPILERS = ("g++", "clang++", "c++")


def probe_system(store: Store | None, environ: Mapping[str, str] = os.environ) -> Probe:
    """Ask this machine.

    Args:
        store: Where a build may have left isaprobe, in case none was installed with this program.
        environ: The environment.
    """
    memory = psutil.virtual_memory()
    library, version = platform.libc_ver()
    kept = {name: environ[name] for name in KEPT if environ.get(name)}
    if preload := environ.get(_PRELOAD):
        kept[_PRELOAD] = ":".join(Path(part).name for part in preload.replace(" ", ":").split(":") if part)
    darwin = platform.system() == "Darwin"
    if darwin:
        kept["hw.physicalcpu"] = str(psutil.cpu_count(logical=False) or 1)
    return Probe(
        system=platform.system(),
        architecture=platform.machine(),
        kernel=platform.release(),
        python=platform.python_version(),
        glibc=version if library == "glibc" else None,
        macos=platform.mac_ver()[0] if darwin else None,
        cpu=cpu_at_hand(store) if store else None,
        total_memory=memory.total,
        available_memory=memory.available,
        get_mempolicy=get_mempolicy(),
        lscpu=darwin or shutil.which("lscpu") is not None,
        compiler=_compiler(environ),
        shared_memory=_shared_memory(Path("/dev/shm")),  # noqa: S108  (not written to)
        libraries=tuple(sorted(filter(None, map(find_library, _LIBRARIES)))) if not darwin else (),
        environ=kept,
    )


def get_mempolicy() -> str | None:
    """Make the system call that libnuma makes first, and return how it ends, as `Probe` has it.

    Container engines forbid it in their seccomp profile unless the container has CAP_SYS_NICE. libnuma then reports
    that there are no memory nodes, and vLLM binds no memory.
    """
    number = _GET_MEMPOLICY.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        return None
    library = ctypes.CDLL(None, use_errno=True)
    done = library.syscall(ctypes.c_long(number), None, None, ctypes.c_ulong(0), None, ctypes.c_ulong(0))
    return "" if done == 0 else errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))


def _compiler(environ: Mapping[str, str]) -> str:
    """Return the first line of a compiler's version: of ``CXX``, or of the one that torch would find."""
    for name in filter(None, (environ.get("CXX"), *_COMPILERS)):
        if (path := shutil.which(name)) and (done := capture([path, "--version"])).returncode == 0:
            return done.output.splitlines()[0] if done.output.strip() else Path(path).name
    return ""


def _shared_memory(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return found.f_frsize * found.f_blocks
