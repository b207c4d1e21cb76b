"""What the processes of a server have loaded: kernel libraries, OpenMP runtimes, allocators."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cpuwheels.wheel.kernel_wheel import Preloads

_FILE = re.compile(r"\s(/\S.*)$", re.MULTILINE)
_KERNELS = re.compile(r"/vllm/(_C(?:_[A-Z0-9]+)?)(?:\.abi3)?\.so$")
# Not what auditwheel has given a name of its own: symbols are looked up in the preloaded runtime first, so the one that
# another package brings along, such as sentencepiece, lies idle.
_OPENMP = re.compile(r"/(lib(?:gomp|iomp5|omp)\.so[.\d]*)$")
_ALLOCATOR = re.compile(r"/(lib(?:tcmalloc|jemalloc|mimalloc)[^/]*\.so[.\d]*)$")
_OURS = "libtcmalloc"
"""The allocator in the wheel, or a tcmalloc that LD_PRELOAD names, which vLLM takes then."""


@dataclass(frozen=True)
class Process:
    """What one process of a server has loaded, by names of files.

    Attributes:
        libraries: Kernel libraries of vLLM, without the rest of the file's name.
        openmp: OpenMP runtimes that are used: the one that was preloaded, else all.
        allocators: What replaces the C library's allocator: the one that was preloaded, else all that could.
        computes: Whether it runs the model: it has kernels, and is not the one that takes requests, which has them too.
    """

    libraries: frozenset[str]
    openmp: frozenset[str]
    allocators: frozenset[str]
    computes: bool

    @classmethod
    def of(cls, maps: str, environ: str, *, is_first: bool) -> Process:
        """Return what a process has loaded.

        torch is linked to libgomp, and Debian's for Arm to mimalloc. They are loaded even if others were preloaded, and
        their functions of the same names lie idle then: the loader looks in what was preloaded first (ld.so(8)).

        Args:
            maps: Its ``/proc/<pid>/maps``.
            environ: Its ``/proc/<pid>/environ``.
            is_first: Whether it is the one that was started, which takes requests and starts the others.
        """
        files = set(_FILE.findall(maps))

        def named(kind: re.Pattern[str]) -> frozenset[str]:
            return frozenset(match[1] for file in files if (match := kind.search(file)))

        def used(kind: re.Pattern[str]) -> frozenset[str]:
            loaded = named(kind)
            return frozenset([name for name in _preloaded(environ) if name in loaded][:1]) or loaded

        libraries = named(_KERNELS)
        return cls(libraries, used(_OPENMP), used(_ALLOCATOR), bool(libraries) and not is_first)


def fault(processes: Iterable[Process], wanted: str, chooser: str, preloads: Preloads) -> str:
    """Return what is wrong with what a server has loaded; empty if nothing is.

    Args:
        processes: Its processes.
        wanted: The kernel library that it was to load; empty if vLLM chose.
        chooser: A module that looks like a library and is none; empty if there is none.
        preloads: What the wheel's processes are given.
    """
    processes = tuple(processes)
    libraries = kernel_libraries(processes, chooser)
    if wanted and libraries != {wanted}:
        return f"the server loaded {_listed(libraries) or 'no library'}, and not {wanted}"
    if len(libraries) != 1:
        return f"the server loaded {_listed(libraries) or 'no kernel library'}, and not one library"
    workers = [each for each in processes if each.computes]
    if not workers:
        return "the server has no process that computes: only the one that takes requests has loaded kernels"
    return next((why for each in workers if (why := _fault_of(each, preloads))), "")


def kernel_libraries(processes: Iterable[Process], chooser: str) -> set[str]:
    """Return the kernel libraries that a server has loaded, without a module that chooses among them."""
    return {library for each in processes for library in each.libraries} - {chooser}


def runtime_names(processes: Iterable[Process]) -> tuple[str, ...]:
    """Return the OpenMP runtimes and allocators in the processes that compute, sorted."""
    return tuple(sorted({name for each in processes if each.computes for name in each.openmp | each.allocators}))


def _fault_of(process: Process, preloads: Preloads) -> str:
    about = "a process that computes"
    if len(process.openmp) != 1:
        return f"{about} loaded {_listed(process.openmp) or 'no OpenMP runtime'}, and not one runtime"
    if preloads.openmp and process.openmp != {preloads.openmp}:
        return f"{about} uses {_listed(process.openmp)}, and not {preloads.openmp}"
    if preloads.allocator and (len(process.allocators) != 1 or not min(process.allocators).startswith(_OURS)):
        return f"{about} uses {_listed(process.allocators) or 'no allocator'}, and not the wheel's"
    return ""


def _preloaded(environ: str) -> list[str]:
    """Return the names of the files in the LD_PRELOAD of a process, whose entries blanks or colons separate."""
    variables = dict(each.partition("=")[::2] for each in environ.split("\0"))
    return [PurePosixPath(each).name for each in re.split(r"[\s:]+", variables.get("LD_PRELOAD", "")) if each]


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
