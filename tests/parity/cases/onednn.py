"""Products of matrices by oneDNN, with weights that it packs first."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from harness.case import Call, cases, refusal, refused
from harness.draw import Draw
from harness.expected import Exact, Judged, Near
from oracles import onednn as oracle

ALL = [torch.float32, torch.bfloat16, torch.float16]


def _has(dtype: torch.dtype) -> bool:
    """Return whether oneDNN multiplies this type on this machine; PyTorch has a oneDNN of its own that says so."""
    if dtype == torch.float32:
        return True
    name = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}[dtype]
    return torch.backends.mkldnn.is_available() and getattr(torch.ops.mkldnn, name)()


DTYPES = [dtype for dtype in ALL if _has(dtype)]
# Elsewhere vLLM's oneDNN may have types that PyTorch's has not, and lack others that it has.
X86 = platform.machine() == "x86_64"
LACKING = [dtype for dtype in ALL if dtype not in DTYPES and X86]
# Columns and rows of the weights: one, around vectors and tiles of 16 to 64, primes, DeepSeek V3's latent keys and
# values, Llama 3's 1024 keys, and so many columns as only vocabularies have.
SHAPES = [(1, 1), (16, 16), (15, 17), (33, 31), (64, 32), (48, 129), (101, 491), (576, 1000), (1024, 2048), (64128, 16)]
# These do not have every combination of the other parameters.
PLAIN_SHAPES = [shape for shape in SHAPES if shape not in [(15, 17), (101, 491)]]
SCALED_SHAPES = [shape for shape in SHAPES if shape[0] < 2048]
# Rows of the inputs that one handler is given in turn; of up to as many as there are threads, these share columns.
ROWS = (17, 2, 0, 17, 1, 4)
CACHED = 32
"""How many primitives a handler keeps; vLLM's choice."""
TIMES = 8 if platform.machine() == "s390x" else 24
"""How often memory is taken and given back; packing is slow where oneDNN has no code for the machine, or emulated."""
PLAIN = ("onednn_mm", "create_onednn_mm_handler", "release_dnnl_matmul_handler")
SCALED = ("onednn_scaled_mm", "create_onednn_scaled_mm_handler", "release_dnnl_matmul_handler")


@contextmanager
def released(library: Any, handler: int) -> Iterator[torch.Tensor]:
    """Give a handler as the tensor that the products take, and release it."""
    try:
        yield torch.tensor(handler)
    finally:
        library.release_dnnl_matmul_handler(handler)


def has(library: Any, dtype: torch.dtype) -> bool:
    """Return whether vLLM's oneDNN has a type; on x86 it is what PyTorch's has, so that a refusal is a fault there."""
    return X86 or dtype == torch.float32 or not bool(_product(library, dtype)["refused"])


def _product(library: Any, dtype: torch.dtype) -> Mapping[str, torch.Tensor]:
    """Multiply small matrices of a type, and return whether that was refused."""

    def multiply() -> None:
        with released(library, library.create_onednn_mm_handler(torch.ones(16, 16, dtype=dtype), CACHED)) as handler:
            library.onednn_mm(torch.empty(1, 16, dtype=dtype), torch.ones(1, 16, dtype=dtype), None, handler)

    return refusal(multiply)


def without(library: Any, dtype: torch.dtype) -> Call:
    """Return a call for a type that oneDNN lacks: it is refused each time, and others are not."""

    def run() -> dict[str, torch.Tensor]:
        tried = [dtype, torch.float32, dtype]
        return {"refused": torch.stack([_product(library, each)["refused"] for each in tried])}

    return Call(run, lambda: {"refused": Exact(torch.tensor([True, False, True]))})


@cases(
    *PLAIN,
    dtype=DTYPES,
    shape=SHAPES,
    by_column=[True, False],
    padded=[False, True],
    # Terms of both signs, and of one, whose rounding errors grow with the sum.
    lowest=[-1.0, 0.0],
    where=lambda shape, by_column, padded, lowest, **_: (
        shape not in PLAIN_SHAPES or (by_column and padded != (lowest < 0) and (lowest < 0 or shape[0] < 9999))
    ),
    deep={"shape": lambda st: st.tuples(st.integers(1, 64), st.integers(1, 150))},
)
def onednn_mm(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    shape: tuple[int, int],
    by_column: bool,
    padded: bool,
    lowest: float,
) -> Call:
    """One handler for several inputs, with bias and without; rows may lie apart, weights in either order."""
    if not has(library, dtype):
        return without(library, dtype)
    n, k = shape
    weight = draw.uniform([k, n], lowest, 1, dtype)
    exact = weight.double()
    weight = weight.t().contiguous().t() if by_column else weight
    bias = draw.uniform([n], -1, 1, dtype)
    rows = ROWS if n * k < 99999 else (1, 4)
    inputs = [(draw.strided if padded else draw.guarded)(draw.uniform([m, k], lowest, 1, dtype)) for m in rows]
    biases = [bias if place % 2 else None for place in range(len(rows))]
    outs = [draw.output((m, n), dtype) for m in rows]

    def run() -> dict[str, torch.Tensor]:
        with released(library, library.create_onednn_mm_handler(weight, CACHED)) as handler:
            weight.zero_()
            for out, a, added in zip(outs, inputs, biases, strict=True):
                library.onednn_mm(out, a, added, handler)
        return {f"out{place}": out for place, out in enumerate(outs)}

    def expected() -> dict[str, Near]:
        return {
            f"out{place}": oracle.product(a.double(), exact, None if added is None else added.double())
            for place, (a, added) in enumerate(zip(inputs, biases, strict=True))
        }

    return Call(run, expected)


@cases(*PLAIN, dtype=DTYPES, shape=[(64, 32), (128, 128)])
def onednn_mm_threads(library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int]) -> Call:
    """Handlers of one shape that are made and used with other numbers of threads, on which their layouts may depend."""
    if not has(library, dtype):
        return without(library, dtype)
    n, k = shape
    weight, x = draw.uniform([k, n], -1, 1, dtype), draw.uniform([5, k], -1, 1, dtype)
    outs = {f"threads{threads}": draw.output((5, n), dtype) for threads in (1, 2, 5)}

    def run() -> dict[str, torch.Tensor]:
        before = torch.get_num_threads()
        try:
            for name, out in outs.items():
                torch.set_num_threads(int(name.removeprefix("threads")))
                with released(library, library.create_onednn_mm_handler(weight, CACHED)) as handler:
                    library.onednn_mm(out, x, None, handler)
        finally:
            torch.set_num_threads(before)
        return outs

    return Call(run, lambda: dict.fromkeys(outs, oracle.product(x.double(), weight.double(), None)))


@cases(*PLAIN, dtype=DTYPES, shape=[(64, 36), (48, 129), (576, 1000)])
def onednn_mm_neighbour(library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int]) -> Call:
    """NaN of one row reaches no other, wherever a row ends in a vector or a tile."""
    if not has(library, dtype):
        return without(library, dtype)
    n, k = shape
    weight, x, out = (
        draw.uniform([k, n], -1, 1, dtype),
        draw.uniform([40, k], -1, 1, dtype),
        draw.output((40, n), dtype),
    )
    x[[5, 16, 39]] = float("nan")

    def run() -> dict[str, torch.Tensor]:
        with released(library, library.create_onednn_mm_handler(weight, CACHED)) as handler:
            library.onednn_mm(out, x, None, handler)
        return {"out": out}

    return Call(run, lambda: {"out": oracle.product(x.double(), weight.double(), None)})


@cases(*PLAIN, dtype=DTYPES, cached=[1, 2])
def onednn_mm_two_handlers(library: Any, draw: Draw, *, dtype: torch.dtype, cached: int) -> Call:
    """Handlers of one shape have weights of their own, though they share primitives, of which few are kept."""
    if not has(library, dtype):
        return without(library, dtype)
    k, n = 40, 50 + cached
    weights = [draw.normal([n, k], dtype).t() for _ in range(2)]
    inputs = [draw.normal([m, k], dtype) for m in (1, 5, 3, 1, 5, 5)]
    outs = [draw.output((len(a), n), dtype) for a in inputs]

    def run() -> dict[str, torch.Tensor]:
        first, second = (library.create_onednn_mm_handler(weight, cached) for weight in weights)
        with released(library, second) as other:
            with released(library, first) as one:
                for place in range(4):
                    library.onednn_mm(outs[place], inputs[place], None, (one, other)[place % 2])
            for place in (4, 5):
                library.onednn_mm(outs[place], inputs[place], None, other)
        return {f"out{place}": out for place, out in enumerate(outs)}

    def expected() -> dict[str, Near]:
        return {
            f"out{place}": oracle.product(a.double(), weights[1 if place > 3 else place % 2].double())
            for place, a in enumerate(inputs)
        }

    return Call(run, expected)


@cases(*PLAIN, dtype=DTYPES)
def onednn_mm_not_finite(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
    """Infinity and what is not a number stay in their rows."""
    if not has(library, dtype):
        return without(library, dtype)
    weight, a = draw.normal([24, 40], dtype).t(), draw.normal([6, 40], dtype)
    a[0, 0], a[1, 39], a[3, 7], a[3, 8] = torch.inf, -torch.inf, torch.nan, 1
    out = draw.output((6, 24), dtype)

    def run() -> dict[str, torch.Tensor]:
        with released(library, library.create_onednn_mm_handler(weight, CACHED)) as handler:
            library.onednn_mm(out, a, None, handler)
        return {"out": out}

    return Call(run, lambda: {"out": oracle.product(a.double(), weight.double())})


_MALLOC_COUNTS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)


class _MallocState(ctypes.Structure):
    """glibc's ``struct mallinfo2``; ``uordblks`` and ``hblkhd`` are the bytes in use, from its heaps and mapped."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLOC_COUNTS)


def _of_malloc() -> int:
    """Return how many bytes are in use that malloc gave out; 0 if the C library does not say."""
    state = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if state is None:
        return 0
    state.restype = _MallocState
    said = state()
    return int(said.uordblks + said.hblkhd)


def _of_process() -> int:
    """Return how much memory of this process's own is in use, in bytes, after AddressSanitizer let go of what is freed.

    What is read from files is not counted: the kernel may drop it, and it comes back.
    """
    purge = getattr(ctypes.CDLL(None), "__sanitizer_purge_allocator", None)
    if purge is not None:
        purge()
    said = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return sum(int(said[name].split()[0]) << 10 for name in ("RssAnon", "VmSwap"))


def _counts() -> Callable[[], int]:
    """Return what counts memory: malloc if it does, as that of sanitizers need not.

    That of the process is more: an emulator adds what it translates to it.
    """
    before = _of_malloc()
    probe = torch.empty(1 << 20)
    return _of_malloc if _of_malloc() - before >= probe.nbytes else _of_process


@cases("release_dnnl_matmul_handler", "create_onednn_mm_handler", "create_onednn_scaled_mm_handler", times=[TIMES])
def release_dnnl_matmul_handler(library: Any, draw: Draw, *, times: int) -> Call:  # noqa: ARG001
    """The memory of packed weights is there again for others: else half of the times would take twice what is allowed.

    That of a process varies from one time to the next, by what the C library keeps: by three times' worth where other
    programs ran.
    """
    weight, integers, scale = torch.ones(1024, 2048), torch.ones(2048, 4096, dtype=torch.int8).t(), torch.ones(1)
    made = [
        lambda: library.create_onednn_mm_handler(weight, CACHED),
        lambda: library.create_onednn_scaled_mm_handler(integers, scale, torch.float32, True, False, CACHED),
    ]

    def growth(make: Callable[[], int]) -> int:
        allocated, sizes = _counts(), []
        for _ in range(times):
            library.release_dnnl_matmul_handler(make())
            sizes.append(allocated())
        return min(sizes[times // 2 :]) - min(sizes[: times // 2])

    def run() -> dict[str, torch.Tensor]:
        return {"freed": torch.tensor([growth(make) < times / 4 * weight.nbytes for make in made])}

    return Call(run, lambda: {"freed": Exact(torch.tensor([True, True]))})


@cases("create_onednn_mm_handler", what=["one_dimension", "integers", *LACKING])
def create_onednn_mm_handler_refused(library: Any, draw: Draw, *, what: str | torch.dtype) -> Call:
    """What is no matrix, and types that this machine cannot multiply; vLLM then multiplies without oneDNN."""
    weight = draw.normal([32] if what == "one_dimension" else [32, 32])
    weight = weight.to(what if isinstance(what, torch.dtype) else torch.int32 if what == "integers" else torch.float32)
    return refused(lambda: library.create_onednn_mm_handler(weight, CACHED))


@cases(*PLAIN, what=["a_three_dimensions", "a_columns_apart", "c_columns_apart"])
def onednn_mm_refused(library: Any, draw: Draw, *, what: str) -> Call:
    """Layouts that are not supported are refused."""
    a, c, weight = draw.normal([4, 32]), draw.output((4, 16), torch.float32), draw.normal([32, 16])
    if what == "a_three_dimensions":
        a = a[None]
    elif what == "a_columns_apart":
        a = draw.normal([32, 4]).t()
    else:
        c = draw.output((16, 4), torch.float32).t()

    def run() -> Mapping[str, torch.Tensor]:
        with released(library, library.create_onednn_mm_handler(weight, CACHED)) as handler:
            return refusal(lambda: library.onednn_mm(c, a, None, handler))

    return Call(run, lambda: {"refused": Exact(torch.tensor(True))})


@cases("is_onednn_acl_supported")
def is_onednn_acl_supported(library: Any, draw: Draw) -> Call:  # noqa: ARG001
    """The Arm Compute Library is on no other machine; on Arm it depends on how the library was built."""

    def judge(answer: torch.Tensor) -> str:
        return "the Arm Compute Library runs only on Arm" if answer and platform.machine() != "aarch64" else ""

    return Call(lambda: {"answer": torch.tensor(library.is_onednn_acl_supported())}, lambda: {"answer": Judged(judge)})
