"""Attention and what is not a number, also what other sequences have left; docs/findings.md has a name for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from cases.attention_defects import PLAIN, ROTATED, SCALES, SIZE
from cases.paged_batch import has_kernel
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact

BLOCK = 64
PAGED = "cpu_attention_with_kv_cache", "get_scheduler_metadata"


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cases("extend_attention_cpu", poison=["nan", "inf"], place=["values", "keys"])
def extend_attention_neighbour(library: Any, draw: Draw, *, poison: str, place: str) -> Call:
    """One sequence behind another, worked on by the same thread, does not see what the other has left.

    Keys and values are packed into one buffer: keys of a short sequence lie where values of the next one end.
    """
    first = 32 if place == "values" else 6
    query, keys, values = (draw.normal((first + 5, 1, SIZE), torch.bfloat16) for _ in range(3))
    {"values": values, "keys": keys}[place][first - 1] = float(poison)
    out, table = draw.output((first + 5, 1, SIZE), torch.bfloat16), torch.zeros(2, first, dtype=torch.int64)
    lengths, starts, numbers = torch.tensor([first, 5]), torch.tensor([0, first]), torch.arange(2)

    def run() -> dict[str, torch.Tensor]:
        with _one_thread():
            library.extend_attention_cpu(
                query,
                keys,
                values,
                out,
                keys,
                values,
                table,
                numbers,
                lengths,
                lengths,
                starts,
                first,
                1.0,
                0.0,
                False,
                0,
                None,
                None,
            )
        return {"finite": out[first:].isfinite().all()}

    return Call(run, lambda: {"finite": Exact(torch.tensor(True))})


@cases("decode_attention_cpu", poison=["nan", "inf"])
def decode_attention_mla_neighbour(library: Any, draw: Draw, *, poison: str) -> Call:
    """One request behind another, worked on by the same thread, does not see what the other has left."""
    size, count = 64, 32
    query, latents = draw.normal((2, 2, 128), torch.bfloat16), draw.normal((count + 5, 1, 128), torch.bfloat16)
    latents[count - 1] = float(poison)
    out, scratch = draw.output((2, 2, size), torch.bfloat16), draw.output((2, 2, 1, size + 1), torch.float32)
    table = torch.stack([torch.arange(count), torch.arange(count) % 5 + count])

    def run() -> dict[str, torch.Tensor]:
        with _one_thread():
            library.decode_attention_cpu(
                query,
                latents,
                latents[..., :size],
                out,
                None,
                None,
                None,
                scratch,
                table,
                torch.arange(2),
                torch.tensor([count, 5]),
                1.0,
                0.0,
                False,
                0,
                None,
                None,
            )
        return {"finite": out[1].isfinite().all()}

    return Call(run, lambda: {"finite": Exact(torch.tensor(True))})


@cases("flash_mla_with_kvcache_cpu", poison=["nan", "inf"])
def flash_mla_neighbour(library: Any, draw: Draw, *, poison: str) -> Call:
    """One token behind another, worked on by the same thread, does not see what the other's vectors have left."""
    cache = torch.zeros((2, PLAIN + 2 * ROTATED + SCALES), dtype=torch.uint8)
    cache[:, -SCALES:] = 127
    rotated = torch.full([ROTATED], float(poison), dtype=torch.bfloat16).view(torch.uint8)
    cache[1, PLAIN : PLAIN + 2 * ROTATED] = rotated
    query, out = draw.normal((2, 1, PLAIN + ROTATED), torch.bfloat16), draw.output((2, 1, 512), torch.bfloat16)
    window, compressed, sink = torch.zeros(2, 5).long(), torch.zeros(2, 32).long(), torch.full([1], -torch.inf)
    compressed[0, -1] = 1

    def run() -> dict[str, torch.Tensor]:
        with _one_thread():
            library.flash_mla_with_kvcache_cpu(out, query, cache, window, 1, cache, compressed, 1, sink, 1.0)
        return {"finite": out[1].isfinite().all()}

    return Call(run, lambda: {"finite": Exact(torch.tensor(True))})


def _attend(
    library: Any,
    out: torch.Tensor,
    caches: Sequence[torch.Tensor],
    length: int,
    isa: str,
    cache: str = "auto",
    planned: str = "auto",
) -> None:
    """Attend with one query of ones to the first tokens of the blocks."""
    lengths, starts = torch.tensor([length], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    table = torch.arange(len(caches[0]), dtype=torch.int32)[None]
    plan = library.get_scheduler_metadata(
        1, 1, 1, SIZE, lengths, out.dtype, starts, True, -1, isa, False, None, planned
    )
    library.cpu_attention_with_kv_cache(
        torch.ones_like(out),
        *caches,
        out,
        starts,
        lengths,
        1.0,
        True,
        None,
        -1,
        table,
        0.0,
        plan,
        None,
        None,
        1.0,
        1.0,
        cache,
    )


@cases(
    *PAGED,
    "cpu_attn_reshape_and_cache",
    isa=["vec", "vec16"],
    dtype=[torch.float32, torch.bfloat16],
    length=[5, 37, 70],
)
def paged_attention_neighbour(library: Any, draw: Draw, *, isa: str, dtype: torch.dtype, length: int) -> Call:
    """Other sequences have left what is no number behind the last token: the average of ones is one all the same."""
    keys, values = (torch.full((2 * BLOCK, 1, SIZE), torch.nan, dtype=dtype) for _ in range(2))
    keys[:length], values[:length] = 0, 1
    caches = [draw.guarded(torch.zeros(2, 1, BLOCK, SIZE, dtype=dtype)) for _ in range(2)]
    out = draw.output((1, 1, SIZE), dtype)

    def run() -> dict[str, torch.Tensor]:
        library.cpu_attn_reshape_and_cache(keys, values, *caches, torch.arange(2 * BLOCK), isa)
        _attend(library, out, caches, length, isa)
        return {"near": (out - 1).abs() < 0.01}

    return Call(run, lambda: {"near": Exact(torch.ones(1, 1, SIZE, dtype=torch.bool))})


@cases(*PAGED, place=["keys", "values"], code=[0x7F, 0xFF], dtype=[torch.float32, torch.bfloat16])
def paged_attention_fp8_nan(library: Any, draw: Draw, *, place: str, code: int, dtype: torch.dtype) -> Call:
    """E4M3's codes of NaN in one component of a key, or of a value: it is in all of the result, or in its component."""
    caches = [draw.guarded(torch.zeros(1, 1, BLOCK, SIZE, dtype=torch.uint8)) for _ in range(2)]
    # Components of keys have the tokens next to each other.
    caches[0].view(SIZE, BLOCK)[7, 2] = code if place == "keys" else 0
    caches[1].view(BLOCK, SIZE)[2, 7] = code if place == "values" else 0
    out, expected = draw.output((1, 1, SIZE), dtype), torch.full((1, 1, SIZE), place == "keys")
    expected[..., 7] = True
    if not has_kernel(library, "vec", SIZE, dtype, "fp8_e4m3"):
        return refused(lambda: _attend(library, out, caches, 5, "vec", "fp8_e4m3"))

    def run() -> dict[str, torch.Tensor]:
        _attend(library, out, caches, 5, "vec", "fp8_e4m3", "fp8_e4m3")
        return {"nan": out.isnan()}

    return Call(run, lambda: {"nan": Exact(expected)})
