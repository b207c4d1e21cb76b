"""One call of attention with a paged cache: its inputs, and what is expected of it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.case import Call, refusal, refused
from harness.draw import Draw
from harness.expected import Exact, Near
from oracles import attention
from oracles.attention import Roundings

NATIVE = ("amx", "neon", "vxe", "rvv", "vsx")
"""Kernels that only some libraries have; "vec" and "vec16" are everywhere."""
FP8 = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
JUNK = 64.0
"""How much larger than keys and values is what else a cache holds: it must be finite, but never counts."""


@dataclass(frozen=True)
class Batch:
    """What a call computes.

    Attributes:
        lengths: How many queries and keys each request has.
        isa: The kernel, or "native" for the one that a library is made for.
        heads: Of queries, and of keys and values.
        causal: None if it differs between requests.
        cache: The format of the cache, "auto" for ``dtype``.
        scales: What keys and values in an FP8 cache are multiplied with; powers of two, so that they are exact.
        spread: The standard deviation of the scores.
        values: The standard deviation of the values.
        split: Whether the keys of one query may be divided among threads.
        strided: Whether queries, keys and values are parts of wider rows.
        spoilt: Whether one component of one query's head is not a number.
        edge: Whether nothing may be read behind the sinks.
    """

    dtype: torch.dtype
    lengths: Sequence[tuple[int, int]]
    isa: str = "native"
    heads: tuple[int, int] = (4, 2)
    size: int = 64
    block: int = 32
    causal: bool | None = True
    window: int | None = None
    softcap: float = 0.0
    alibi: bool = False
    sinks: torch.dtype | None = None
    cache: str = "auto"
    scales: tuple[float, float] = (1.0, 1.0)
    spread: float = 1.0
    values: float = 1.0
    split: bool = False
    strided: bool = False
    spoilt: bool = False
    edge: bool = False


def has_kernel(library: Any, isa: str, size: int, dtype: torch.dtype, cache: str = "auto") -> bool:
    """Return whether the library has a kernel, and this processor what it needs."""
    if isa == "amx":
        if dtype != torch.bfloat16 or not torch.cpu._is_amx_tile_supported():
            return False
        torch.cpu._init_amx()
    try:
        _plan_one(library, isa, size, dtype, cache)
    except RuntimeError:
        return False
    return True


def _plan_one(
    library: Any, isa: str, size: int, dtype: torch.dtype, cache: str, flags: torch.Tensor | None = None
) -> torch.Tensor:
    """Plan the work of a request of one token; flags say for each request whether it is causal."""
    one, start = torch.ones(1, dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    return library.get_scheduler_metadata(1, 1, 1, size, one, dtype, start, flags is None, -1, isa, False, flags, cache)


def kernel(library: Any, batch: Batch) -> str:
    """Return the kernel that a call uses."""
    if batch.isa != "native":
        return batch.isa
    return next((isa for isa in NATIVE if has_kernel(library, isa, batch.size, batch.dtype, batch.cache)), "vec")


def output_name(isa: str, batch: Batch) -> tuple[str, Roundings]:
    """Return what limits call the output of a kernel, and what the kernel rounds.

    Heads that are no multiple of 32 all go to vec16.
    """
    if batch.size % 32:
        isa = "vec16"
    if batch.dtype == torch.float32 or isa in {"vxe", "rvv", "vsx"}:
        return isa, Roundings()
    if isa == "amx":
        return f"amx_{batch.cache}", Roundings(weights=torch.bfloat16)
    if isa == "neon" and batch.dtype == torch.bfloat16:
        return "neon", Roundings(weights=torch.bfloat16, queries=torch.bfloat16)
    if platform.machine() in {"aarch64", "arm64"}:
        return f"{isa}_arm", Roundings(weights=torch.float16)
    return isa, Roundings()


@dataclass(frozen=True)
class Tensors:
    """The inputs of a call; a cache that holds the keys and values does not exist yet."""

    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    caches: tuple[torch.Tensor, torch.Tensor]
    slots: torch.Tensor
    table: torch.Tensor
    slopes: torch.Tensor | None
    sinks: torch.Tensor | None

    @property
    def stored(self) -> tuple[torch.Tensor, ...]:
        """What the cache is written from."""
        return self.keys, self.values, *self.caches, self.slots


def _tensors(draw: Draw, batch: Batch) -> Tensors:
    queries, keys = (sum(lengths) for lengths in zip(*batch.lengths, strict=True))
    heads, shared = batch.heads
    place = (lambda part: draw.strided(part, 16)) if batch.strided else (lambda part: part)
    scales = batch.scales if batch.cache != "auto" else (1.0, 1.0)

    def stored(scale: float, factor: float) -> torch.Tensor:
        part = draw.normal((keys, shared, batch.size), torch.float32, factor)
        if batch.cache != "auto":
            part = (part / scale).to(FP8[batch.cache]).float() * scale
        return place(part.to(batch.dtype))

    table = _table(draw, batch)
    positions = [torch.arange(length) for _, length in batch.lengths]
    slots = [
        blocks[position // batch.block].long() * batch.block + position % batch.block
        for blocks, position in zip(table, positions, strict=True)
    ]
    query = place(draw.normal((queries, heads, batch.size), batch.dtype, batch.spread))
    if batch.spoilt:
        query[queries // 2, 1, 5] = torch.nan
    return Tensors(
        query,
        stored(scales[0], 1.0),
        stored(scales[1], batch.values),
        _caches(draw, batch, int(table.max()) + 1),
        torch.cat(slots),
        table,
        2.0 ** -(torch.arange(heads) + 1.0) if batch.alibi else None,
        _sinks(draw, batch),
    )


def _sinks(draw: Draw, batch: Batch) -> torch.Tensor | None:
    """Return a sink for each head, in front of others."""
    if batch.sinks is None:
        return None
    sinks = draw.normal([batch.heads[0] + 16], batch.sinks, 3.0)[: batch.heads[0]]
    return draw.at_edge(sinks) if batch.edge else sinks


def _table(draw: Draw, batch: Batch) -> torch.Tensor:
    """Return the blocks of each request, in any order; behind them those of others."""
    counts = [-(-keys // batch.block) for _, keys in batch.lengths]
    order = draw.permutation(sum(counts) + 2).int()
    table = order[-1].repeat(len(counts), max(counts) + 1)
    for row, blocks in zip(table, order[:-2].split(counts), strict=True):
        row[: len(blocks)] = blocks
    return table


def _caches(draw: Draw, batch: Batch, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return key and value cache; each block holds the keys of a head, then its values."""
    shape = (blocks, batch.heads[1], 2 * batch.block, batch.size)
    if batch.cache == "auto":
        whole = draw.guarded(draw.normal(shape, batch.dtype, JUNK))
    else:
        whole = draw.guarded(draw.normal(shape, scale=JUNK).to(FP8[batch.cache]).view(torch.uint8))
    keys, values = whole.chunk(2, 2)
    return keys, values


def _causal(batch: Batch) -> list[bool]:
    """Return for each request whether it is causal."""
    return [index % 2 == 0 if batch.causal is None else batch.causal for index, _ in enumerate(batch.lengths)]


def _flags(library: Any, isa: str, batch: Batch) -> torch.dtype:
    """Return the type of a flag for each request: int32, or bool before vLLM 0.32."""
    flags = torch.ones(1, dtype=torch.int32)
    try:
        _plan_one(library, isa, batch.size, batch.dtype, batch.cache, flags)
    except RuntimeError as error:
        if "expected scalar type Bool" not in str(error):
            raise
        return torch.bool
    return flags.dtype


def _takes_float32_sinks(library: Any) -> bool:
    """Return whether sinks may be in float32, as since vLLM 0.31."""
    query, one, start = torch.zeros(1, 1, 64), torch.ones(1, dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    keys, values = torch.zeros(1, 1, 64, 64).chunk(2, 2)
    plan, table = _plan_one(library, "vec", 64, torch.float32, "auto"), torch.zeros(1, 1, dtype=torch.int32)
    of_one = (query, keys, values, torch.empty_like(query), start, one, 1.0, True, None, -1, table, 0.0, plan)
    try:
        library.cpu_attention_with_kv_cache(*of_one, torch.zeros(1), None)
    except RuntimeError as error:
        if "expected scalar type BFloat16" not in str(error):
            raise
        return False
    return True


def attention_call(library: Any, draw: Draw, batch: Batch) -> Call:
    """Write the cache, plan the work, and attend; the library must have the kernel."""
    isa = kernel(library, batch)
    tensors = _tensors(draw, batch)
    queries, keys = zip(*batch.lengths, strict=True)
    start = torch.tensor([0, *queries], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    lengths = torch.tensor(keys, dtype=torch.int32)
    causal = bool(batch.causal)
    dynamic = None if batch.causal is not None else torch.tensor(_causal(batch), dtype=_flags(library, isa, batch))
    window = -1 if batch.window is None else batch.window
    scale, cache = batch.size**-0.5, (*batch.scales, batch.cache)
    name, roundings = output_name(isa, batch)
    out = draw.output(tensors.query.shape, batch.dtype)

    def run() -> dict[str, torch.Tensor]:
        library.cpu_attn_reshape_and_cache(*tensors.stored, isa, *cache)
        plan = library.get_scheduler_metadata(
            len(keys),
            *batch.heads,
            batch.size,
            lengths,
            batch.dtype,
            start,
            causal,
            window,
            isa,
            batch.split,
            dynamic,
            batch.cache,
        )
        library.cpu_attention_with_kv_cache(
            tensors.query,
            *tensors.caches,
            out,
            start,
            lengths,
            scale,
            causal,
            tensors.slopes,
            window,
            tensors.table,
            batch.softcap,
            plan,
            tensors.sinks,
            dynamic,
            *cache,
        )
        return {name: out}

    if batch.sinks == torch.float32 and not _takes_float32_sinks(library):
        return refused(run)
    return Call(run, lambda: {name: _expected(tensors, batch, scale, roundings)})


def _expected(tensors: Tensors, batch: Batch, scale: float, roundings: Roundings) -> Near:
    queries, keys = zip(*batch.lengths, strict=True)
    parts = zip(
        tensors.query.double().split(queries),
        tensors.keys.double().split(keys),
        tensors.values.double().split(keys),
        _causal(batch),
        strict=True,
    )
    results = []
    for query, key, value, causal in parts:
        seen = attention.visible(len(query), len(key), causal=causal, window=batch.window)
        results.append(
            attention.attention(
                query,
                key,
                value,
                seen,
                scale=scale,
                softcap=batch.softcap,
                slopes=None if tensors.slopes is None else tensors.slopes.double(),
                sinks=None if tensors.sinks is None else tensors.sinks.double(),
                roundings=roundings,
            )
        )
    return attention.joined(results)


def refused_call(library: Any, draw: Draw, batch: Batch) -> Call:
    """The same where the library has no such kernel: all three operators refuse it."""
    tensors = _tensors(draw, batch)
    queries, keys = zip(*batch.lengths, strict=True)
    start = torch.tensor([0, *queries], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    lengths = torch.tensor(keys, dtype=torch.int32)
    sizes = (len(keys), *batch.heads, batch.size, lengths, batch.dtype, start, True, -1)
    out = draw.output(tensors.query.shape, batch.dtype)
    plan = library.get_scheduler_metadata(
        len(keys), *batch.heads, 64, lengths, batch.dtype, start, True, -1, "vec", False, None
    )
    calls = {
        "metadata": lambda: library.get_scheduler_metadata(*sizes, batch.isa, False, None, batch.cache),
        "cache": lambda: library.cpu_attn_reshape_and_cache(*tensors.stored, batch.isa, *batch.scales, batch.cache),
        "attention": lambda: library.cpu_attention_with_kv_cache(
            tensors.query,
            *tensors.caches,
            out,
            start,
            lengths,
            1.0,
            True,
            None,
            -1,
            tensors.table,
            0.0,
            plan,
            None,
            None,
            *batch.scales,
            batch.cache,
        ),
    }

    def run() -> dict[str, torch.Tensor]:
        return {name: refusal(call)["refused"] for name, call in calls.items()}

    return Call(run, lambda: dict.fromkeys(calls, Exact(torch.tensor(True))))
