"""Attention with a paged cache of keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from cases.paged_batch import FP8, Batch, attention_call, has_kernel, refused_call
from harness.case import Call, cases, refusal
from harness.draw import Draw
from harness.expected import Exact, Judged
from oracles.utilities import has_amx_fp8

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
OPERATORS = ("cpu_attention_with_kv_cache", "cpu_attn_reshape_and_cache", "get_scheduler_metadata")
# The first one's limits count: what get_scheduler_metadata plans for much work depends on the number of threads.
PLANNED = ("get_scheduler_metadata", "cpu_attention_with_kv_cache", "cpu_attn_reshape_and_cache")

BATCHES: Mapping[str, Sequence[tuple[int, int]]] = {
    "decode": [(1, 1), (1, 7), (1, 33), (1, 150)],
    "prefill": [(5, 5), (17, 17), (33, 65)],
    "mixed": [(3, 40), (1, 77), (18, 18), (1, 1)],
    # Longer than what each of two threads gets, and by more than is left together.
    "split": [(1, 1500), (1, 40), (1, 333), (1, 1)],
    "split_mixed": [(1, 1700), (37, 330), (1, 130)],
}
"""How many queries and keys each request has."""

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "everywhere": {"causal": False},
    "some_causal": {"causal": None},
    "window=1": {"window": 1},
    "window=9": {"window": 9},
    "window=40": {"window": 40},
    "window=9_both_sides": {"causal": False, "window": 9},
    "window=9_some_causal": {"causal": None, "window": 9},
    "alibi": {"alibi": True},
    "alibi_window": {"alibi": True, "window": 20},
    # Gemma 2 and Grok 1.
    "softcap=50": {"softcap": 50.0, "spread": 8.0},
    "softcap=2": {"softcap": 2.0, "spread": 8.0},
    "softcap_window": {"softcap": 30.0, "window": 33, "spread": 4.0},
    "sinks_bfloat16": {"sinks": torch.bfloat16},
    "sinks_float32": {"sinks": torch.float32},
    "sinks_window": {"sinks": torch.bfloat16, "window": 17},
    "strided": {"strided": True},
}


# One head for each of the keys', groups of 2 to 16, more than some kernels take at once, and numbers that are odd.
@cases(
    *OPERATORS,
    isa=["native", "vec", "vec16"],
    dtype=DTYPES,
    heads=[(1, 1), (4, 4), (8, 2), (9, 3), (10, 1), (16, 1), (17, 1)],
    batch=["decode", "prefill", "mixed"],
    where=lambda isa, heads, **_: isa == "native" or heads in {(8, 2), (17, 1)},
)
def paged_attention(
    library: Any, draw: Draw, *, isa: str, dtype: torch.dtype, heads: tuple[int, int], batch: str
) -> Call:
    """Requests with one query, with only new keys, with both, and together."""
    return attention_call(library, draw, Batch(dtype, BATCHES[batch], isa, heads))


# All that there are kernels for; 64 is Llama 3.2's and gpt-oss's, 80 Phi 2's, 128 most models', 256 Gemma's.
@cases(
    *OPERATORS,
    isa=["native", "vec16"],
    dtype=DTYPES,
    size=[32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512],
    deep={
        "queries": lambda st: st.integers(1, 70),
        "context": lambda st: st.integers(0, 300),
        "more": lambda st: st.integers(1, 100),
    },
)
def paged_attention_sizes(
    library: Any,
    draw: Draw,
    *,
    isa: str,
    dtype: torch.dtype,
    size: int,
    queries: int = 3,
    context: int = 37,
    more: int = 20,
) -> Call:
    """Heads of all sizes."""
    lengths = [(queries, queries + context), (1, more)]
    return attention_call(library, draw, Batch(dtype, lengths, isa, (2, 1), size))


@cases(
    *OPERATORS,
    isa=["native", "vec16"],
    dtype=DTYPES,
    option=list(OPTIONS),
    batch=["decode", "prefill", "mixed"],
    where=lambda isa, dtype, batch, **_: batch == "mixed" or (isa == "native" and dtype == torch.float32),
)
def paged_attention_options(library: Any, draw: Draw, *, isa: str, dtype: torch.dtype, option: str, batch: str) -> Call:
    """Masks, biases, caps and sinks."""
    return attention_call(library, draw, Batch(dtype, BATCHES[batch], isa, **OPTIONS[option]))


@cases(*OPERATORS, isa=["native", "vec", "vec16"], sinks=[torch.bfloat16, torch.float32], heads=[(8, 2), (5, 1)])
def paged_attention_sinks_edge(
    library: Any, draw: Draw, *, isa: str, sinks: torch.dtype, heads: tuple[int, int]
) -> Call:
    """Groups of fewer heads than vectors have elements, where nothing may be read behind the last head's sink."""
    batch = Batch(torch.bfloat16, BATCHES["mixed"], isa, heads, sinks=sinks, edge=True)
    return replace(attention_call(library, draw, batch), alone=True)


@cases(
    *OPERATORS,
    isa=["native", "vec", "vec16"],
    block=[16, 32, 48, 64, 128],
    dtype=[torch.float32, torch.bfloat16],
    where=lambda isa, block, **_: isa == "vec16" or block % 32 == 0,
)
def paged_attention_blocks(library: Any, draw: Draw, *, isa: str, block: int, dtype: torch.dtype) -> Call:
    """Blocks of more and fewer tokens than a kernel takes at once."""
    return attention_call(library, draw, Batch(dtype, BATCHES["mixed"], isa, block=block))


# More queries and keys than a kernel keeps in its cache at once if heads have 512 elements. Scores that grow by more
# than 8 make the kernel rescale what it has added up.
@cases(*PLANNED, dtype=DTYPES, spread=[1.0, 8.0], lengths=[(70, 150), (20, 300)])
def paged_attention_long(
    library: Any, draw: Draw, *, dtype: torch.dtype, spread: float, lengths: tuple[int, int]
) -> Call:
    """Queries and keys that are worked on in parts."""
    return attention_call(library, draw, Batch(dtype, [lengths], heads=(2, 1), size=512, spread=spread))


@cases(*PLANNED, dtype=DTYPES, heads=[(2, 2), (4, 2), (3, 1)], queries=[130, 200])
def paged_attention_prompt(
    library: Any, draw: Draw, *, dtype: torch.dtype, heads: tuple[int, int], queries: int
) -> Call:
    """More queries of one request than a kernel takes at once, on each thread."""
    return attention_call(library, draw, Batch(dtype, [(queries, queries + 9)], heads=heads))


# Equal scores, one score above all others; values near the ends of the formats.
@cases(*OPERATORS, dtype=DTYPES, spread=[0.0, 40.0], magnitude=[0.0, 1e-30, 1e-4, 1e3, 1e30])
def paged_attention_extreme(library: Any, draw: Draw, *, dtype: torch.dtype, spread: float, magnitude: float) -> Call:
    """Scores and values that are very large, very small, or zero."""
    values = min(magnitude, 1e3) if dtype == torch.float16 else magnitude
    return attention_call(library, draw, Batch(dtype, BATCHES["mixed"], spread=spread, values=values))


@cases(*OPERATORS, isa=["native", "vec16"], dtype=DTYPES, batch=["decode", "mixed"])
def paged_attention_not_a_number(library: Any, draw: Draw, *, isa: str, dtype: torch.dtype, batch: str) -> Call:
    """A query that is not a number has a result that is none; other queries and heads do not notice."""
    return attention_call(library, draw, Batch(dtype, BATCHES[batch], isa, spoilt=True))


@cases(
    *OPERATORS,
    isa=["native", "vec"],
    dtype=DTYPES,
    cache=["fp8_e4m3", "fp8_e5m2"],
    size=[64, 96, 128],
    scales=[(1.0, 1.0), (0.25, 0.0625)],
    batch=["decode", "mixed"],
    where=lambda isa, size, scales, batch, **_: (
        (isa == "native" or size == 64) and (scales == (1.0, 1.0)) == (batch == "decode")
    ),
)
def paged_attention_fp8(
    library: Any,
    draw: Draw,
    *,
    isa: str,
    dtype: torch.dtype,
    cache: str,
    size: int,
    scales: tuple[float, float],
    batch: str,
) -> Call:
    """A cache in FP8, with a scale of keys and one of values; refused by libraries without."""
    problem = Batch(dtype, BATCHES[batch], isa, size=size, cache=cache, scales=scales)
    if has_kernel(library, "vec", size, dtype, cache):
        return attention_call(library, draw, problem)
    return refused_call(library, draw, Batch(dtype, BATCHES[batch], "vec", size=size, cache=cache))


@cases(
    *PLANNED,
    dtype=DTYPES,
    heads=[(4, 4), (8, 2), (9, 1)],
    batch=["split", "split_mixed"],
    option=["none", "window=40", "sinks_bfloat16", "softcap=50", "alibi"],
    where=lambda heads, option, **_: option == "none" or heads == (8, 2),
)
def paged_attention_split(
    library: Any, draw: Draw, *, dtype: torch.dtype, heads: tuple[int, int], batch: str, option: str
) -> Call:
    """Keys of one query that are divided among threads."""
    options = OPTIONS.get(option, {})
    return attention_call(library, draw, Batch(dtype, BATCHES[batch], heads=heads, split=True, **options))


@cases(*OPERATORS, size=[16, 33, 72, 1024])
def paged_attention_odd(library: Any, draw: Draw, *, size: int) -> Call:
    """Heads of sizes that there are no kernels for are refused."""
    return refused_call(library, draw, Batch(torch.float32, BATCHES["mixed"], "vec", size=size))


@cases(
    "cpu_attention_with_kv_cache",
    "get_scheduler_metadata",
    wrong=["threads", "block", "dimensions", "stride", "sinks", "fp8_scale", "fp8_cache"],
)
def paged_attention_refused(library: Any, draw: Draw, *, wrong: str) -> Call:
    """Inputs that do not fit together."""
    one, start = torch.ones(1, dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    query, table = draw.normal((1, 2, 32)), torch.zeros(1, 1, dtype=torch.int32)
    cache = draw.normal((1, 2, 16 if wrong == "block" else 32, 32))
    sinks = torch.zeros(18, dtype=torch.float16)[:2] if wrong == "sinks" else None
    scale, name = (0.0 if wrong == "fp8_scale" else 1.0), ("fp8_e4m3" if wrong.startswith("fp8") else "auto")
    if wrong == "fp8_scale":
        cache = torch.zeros(1, 2, 32, 32, dtype=torch.uint8)
    elif wrong == "dimensions":
        query = query[0]
    elif wrong == "stride":
        query = draw.normal((1, 32, 2)).mT
    out = draw.output((1, 2, 32), torch.float32)

    def run() -> dict[str, torch.Tensor]:
        plan = library.get_scheduler_metadata(1, 2, 2, 32, one, torch.float32, start, True, -1, "vec", False, None)
        threads = torch.get_num_threads()
        torch.set_num_threads(threads + (wrong == "threads"))
        found = refusal(
            lambda: library.cpu_attention_with_kv_cache(
                query,
                cache,
                cache,
                out,
                start,
                one,
                1.0,
                True,
                None,
                -1,
                table,
                0.0,
                plan,
                sinks,
                None,
                scale,
                1.0,
                name,
            )
        )
        torch.set_num_threads(threads)
        return dict(found)

    return Call(run, lambda: {"refused": Exact(torch.tensor(True))})


@cases("get_scheduler_metadata", "cpu_attn_reshape_and_cache")
def paged_attention_no_such_kernel(library: Any, draw: Draw) -> Call:
    """Names of kernels that do not exist are refused."""
    one, start = torch.ones(1, dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    key, cache = draw.normal((1, 1, 32)), draw.normal((1, 1, 32, 32))
    dtype, slots = torch.float32, torch.zeros(1, dtype=torch.int64)
    calls = {
        "metadata": lambda: library.get_scheduler_metadata(1, 1, 1, 32, one, dtype, start, True, -1, "v", False, None),
        "cache": lambda: library.cpu_attn_reshape_and_cache(key, key, cache, cache, slots, "v"),
    }
    return Call(
        lambda: {name: refusal(call)["refused"] for name, call in calls.items()},
        lambda: dict.fromkeys(calls, Exact(torch.tensor(True))),
    )


@cases("cpu_attn_reshape_and_cache", "get_scheduler_metadata", cache=["auto", *FP8], size=[64, 96])
def paged_attention_without_amx_fp8(library: Any, draw: Draw, *, cache: str, size: int) -> Call:
    """Kernels for AMX-FP8 are refused where the library or the CPU has none: they would die of SIGILL."""
    there = has_amx_fp8() and library.cpu_attn_has_isa("amx_fp8")
    keys = draw.normal((2, 1, size), torch.bfloat16)
    block = draw.integers((1, 1, 64, size), 0, 8, torch.bfloat16 if cache == "auto" else torch.uint8)
    parts, slots = block.chunk(2, 2), torch.tensor([0, 1])
    one, start = torch.ones(1, dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    calls = {
        "metadata": lambda: library.get_scheduler_metadata(
            1, 1, 1, size, one, torch.bfloat16, start, True, -1, "amx_fp8", False, None, cache
        ),
        "cache": lambda: library.cpu_attn_reshape_and_cache(keys, keys, *parts, slots, "amx_fp8", 1.0, 1.0, cache),
    }

    def run() -> dict[str, torch.Tensor]:
        return {name: refusal(call)["refused"] for name, call in calls.items()}

    return Call(run, lambda: dict.fromkeys(calls, Exact(torch.tensor(not there))))


@cases("cpu_attn_has_isa", isa=["rvv", "amx_fp8", "vec1024", ""])
def attention_isa(library: Any, draw: Draw, *, isa: str) -> Call:  # noqa: ARG001
    """Optional kernels that this processor cannot have are not there."""
    possible = {"rvv": torch.backends.cpu.get_cpu_capability() == "DEFAULT", "amx_fp8": _has_amx()}.get(isa, False)

    def judge(found: torch.Tensor) -> str:
        return "" if possible or not bool(found) else f"{isa!r} cannot be there"

    return Call(lambda: {"found": torch.tensor(library.cpu_attn_has_isa(isa))}, lambda: {"found": Judged(judge)})


def _has_amx() -> bool:
    return torch.cpu._is_amx_tile_supported()
