"""What is read from the maps of a server's processes, and what is wrong with it."""

from __future__ import annotations

import pytest

from cpuwheels.verification.serving.loaded import Process, fault, kernel_libraries, runtime_names
from cpuwheels.wheel.kernel_wheel import Preloads

SITE = "/env/lib/python3.11/site-packages"
KERNELS = f"{SITE}/vllm/_C.abi3.so"
GOMP = f"{SITE}/torch/lib/libgomp.so.1"
IOMP = "/env/lib/libiomp5.so"
TCMALLOC = f"{SITE}/vllm/libs/libtcmalloc_minimal.so"


def maps(*files: str) -> str:
    """Return the maps of a process: two parts of each file, and memory without one."""
    lines = [f"7f00-7f10 {access} 00000000 fe:00 12   {file}" for file in files for access in ("r--p", "r-xp")]
    return "\n".join(["7ffe-7fff rw-p 00000000 00:00 0  [stack]", *lines, "7f20-7f21 rw-p 00000000 00:00 0", ""])


def worker(*files: str, preload: str = "") -> Process:
    return Process.of(maps(*files), f"HOME=/\0LD_PRELOAD={preload}\0PATH=/bin\0", is_first=False)


@pytest.mark.parametrize(
    ("file", "libraries", "openmp", "allocators"),
    [
        (KERNELS, {"_C"}, set(), set()),
        (f"{SITE}/vllm/_C_AVX512.so", {"_C_AVX512"}, set(), set()),
        (f"{SITE}/vllm/fs_io_C.abi3.so", set(), set(), set()),
        (f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so", set(), set(), set()),
        (GOMP, set(), {"libgomp.so.1"}, set()),
        (IOMP, set(), {"libiomp5.so"}, set()),
        ("/usr/lib/llvm/libomp.so.5", set(), {"libomp.so.5"}, set()),
        # Its package uses the one that was preloaded.
        (f"{SITE}/sentencepiece.libs/libgomp-6a29c32d.so.1.0.0", set(), set(), set()),
        (TCMALLOC, set(), set(), {"libtcmalloc_minimal.so"}),
        ("/usr/lib/libtcmalloc_minimal.so.4", set(), set(), {"libtcmalloc_minimal.so.4"}),
        ("/tmp/a folder/libjemalloc.so.2", set(), set(), {"libjemalloc.so.2"}),
    ],
)
def test_a_file_that_a_process_has_loaded(
    file: str, libraries: set[str], openmp: set[str], allocators: set[str]
) -> None:
    found = worker("/lib/libc.so.6", file)
    assert (found.libraries, found.openmp, found.allocators) == (libraries, openmp, allocators)


def test_only_those_with_kernels_compute_and_not_the_first_one() -> None:
    assert worker(KERNELS).computes
    assert not worker(GOMP).computes
    assert not Process.of(maps(KERNELS), "", is_first=True).computes


API = Process.of(maps(KERNELS, GOMP, IOMP), "", is_first=True)
"""It takes requests, and has neither allocator nor one OpenMP runtime; it need not."""

TCMALLOC_INSIDE = Preloads(allocator=True)

GOOD = worker(KERNELS, GOMP, TCMALLOC)


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        ([API, GOOD, GOOD], ""),
        ([API], "the server has no process that computes"),
        ([], "the server loaded no kernel library"),
        ([API, GOOD, worker(KERNELS, TCMALLOC)], "loaded no OpenMP runtime, and not one"),
        ([API, GOOD, worker(KERNELS, GOMP, IOMP, TCMALLOC)], "loaded libgomp.so.1 and libiomp5.so, and not"),
        ([API, GOOD, worker(KERNELS, GOMP)], "uses no allocator, and not the wheel's"),
        ([worker(KERNELS, GOMP, TCMALLOC, "/x/libjemalloc.so.2")], "libjemalloc.so.2 and libtcmalloc_minimal.so, and"),
        ([GOOD, worker(f"{SITE}/vllm/_C_AVX2.abi3.so", GOMP, TCMALLOC)], "loaded _C and _C_AVX2, and not one library"),
    ],
)
def test_a_fault_is_told(processes: list[Process], words: str) -> None:
    found = fault(processes, "", "", TCMALLOC_INSIDE)
    assert words in found
    assert bool(found) == bool(words)


def test_an_allocator_that_torch_is_linked_to_lies_idle_if_the_wheels_was_preloaded() -> None:
    mimalloc = "/root/usr/lib/libmimalloc.so.3.6"
    both = worker(KERNELS, GOMP, TCMALLOC, mimalloc, preload=TCMALLOC)
    assert both.allocators == {"libtcmalloc_minimal.so"}
    assert fault([API, both], "", "", TCMALLOC_INSIDE) == ""
    found = fault([API, worker(KERNELS, GOMP, mimalloc, preload=TCMALLOC)], "", "", TCMALLOC_INSIDE)
    assert found == "a process that computes uses libmimalloc.so.3.6, and not the wheel's"
    found = fault([API, worker(KERNELS, GOMP, TCMALLOC, mimalloc)], "", "", TCMALLOC_INSIDE)
    assert "uses libmimalloc.so.3.6 and libtcmalloc_minimal.so, and not" in found


def test_a_wheel_without_an_allocator_needs_none() -> None:
    assert fault([API, worker(KERNELS, GOMP)], "", "", Preloads()) == ""


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (worker(KERNELS, GOMP, IOMP, TCMALLOC, preload=f"{TCMALLOC}:{IOMP}"), ""),
        (worker(KERNELS, IOMP, TCMALLOC, preload=f"{TCMALLOC} {IOMP}"), ""),
        (worker(KERNELS, GOMP, TCMALLOC, preload=f"{TCMALLOC}:{GOMP}"), "uses libgomp.so.1, and not libiomp5.so"),
        # Loaded later, as by an extension: libgomp is used as well.
        (worker(KERNELS, GOMP, IOMP, TCMALLOC, preload=TCMALLOC), "libgomp.so.1 and libiomp5.so, and not one runtime"),
        # Named, but not there.
        (worker(KERNELS, GOMP, TCMALLOC, preload=IOMP), "uses libgomp.so.1, and not libiomp5.so"),
    ],
)
def test_the_runtime_that_was_preloaded_is_the_one(process: Process, words: str) -> None:
    found = fault([API, process], "", "", Preloads(allocator=True, openmp="libiomp5.so"))
    assert words in found
    assert bool(found) == bool(words)


def test_a_runtime_that_lies_idle_is_not_listed() -> None:
    assert runtime_names([worker(KERNELS, GOMP, IOMP, preload=IOMP)]) == ("libiomp5.so",)


def test_the_library_that_was_asked_for() -> None:
    assert fault([GOOD], "_C", "", TCMALLOC_INSIDE) == ""
    assert fault([GOOD], "_C_AVX2", "", TCMALLOC_INSIDE) == "the server loaded _C, and not _C_AVX2"


def test_a_chooser_is_no_library() -> None:
    chosen = worker(KERNELS, f"{SITE}/vllm/_C_NEON.abi3.so", GOMP, TCMALLOC)
    assert kernel_libraries([chosen], "_C") == {"_C_NEON"}
    assert fault([chosen], "", "_C", TCMALLOC_INSIDE) == ""


def test_the_runtimes_of_the_processes_that_compute() -> None:
    assert runtime_names([API, GOOD, GOOD]) == ("libgomp.so.1", "libtcmalloc_minimal.so")
