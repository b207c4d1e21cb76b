"""Calls that attention takes and gets wrong; docs/findings.md has one heading for each."""

from __future__ import annotations

import math
from typing import Any

import torch

from cases.paged_batch import has_kernel
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact

SIZE = 32
E4M3 = torch.float8_e4m3fn
PLAIN, ROTATED, SCALES = 448, 64, 8
"""Elements in E4M3, elements in bfloat16, and bytes of scales, of one slot of the latent cache."""


def _int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@cases("cpu_attention_with_kv_cache", "cpu_attn_reshape_and_cache", "get_scheduler_metadata", sign=[1, -1])
def paged_attention_far_beyond_cap(library: Any, draw: Draw, *, sign: int) -> Call:
    """Scores of 320 times the cap, and zero: what tanh gives is -1 or 1, and the weights are e to the power of it."""
    keys = torch.stack([torch.full((1, SIZE), sign * 10.0), torch.zeros(1, SIZE)])
    values = torch.stack([torch.ones(1, SIZE), torch.zeros(1, SIZE)])
    query, cache = torch.ones(1, 1, SIZE), torch.zeros(1, 1, 64, SIZE)
    key_cache, value_cache = cache.chunk(2, 2)
    lengths, starts, out = _int32(2), _int32(0, 1), draw.output((1, 1, SIZE), torch.float32)

    def run() -> dict[str, torch.Tensor]:
        library.cpu_attn_reshape_and_cache(keys, values, key_cache, value_cache, torch.arange(2), "vec")
        plan = library.get_scheduler_metadata(
            1, 1, 1, SIZE, lengths, torch.float32, starts, True, -1, "vec", False, None
        )
        library.cpu_attention_with_kv_cache(
            query,
            key_cache,
            value_cache,
            out,
            starts,
            lengths,
            1.0,
            True,
            None,
            -1,
            _int32(0)[None],
            1.0,
            plan,
            None,
            None,
        )
        return {"near": (out - 1 / (1 + math.exp(-sign))).abs() < 1e-5}

    return Call(run, lambda: {"near": Exact(torch.ones(1, 1, SIZE, dtype=torch.bool))})


@cases("cpu_attn_reshape_and_cache", "get_scheduler_metadata")
def paged_cache_fp8_nearest(library: Any, draw: Draw) -> Call:
    """Numbers become the nearest ones of E4M3, and what is none stays so; refused by libraries without FP8."""
    numbers = [1.1249, 1.24, 15.9, math.nan, 0.0019, 3e-3, 447.9, -1.24]
    x = torch.tensor(numbers * (64 // len(numbers))).view(1, 1, 64)
    cache = draw.guarded(torch.zeros(1, 1, 64, 64, dtype=torch.uint8))
    keys, values = cache.chunk(2, 2)

    def write() -> None:
        library.cpu_attn_reshape_and_cache(x, x, keys, values, torch.zeros(1).long(), "vec", 1.0, 1.0, "fp8_e4m3")

    if not has_kernel(library, "vec", 64, torch.float32, "fp8_e4m3"):
        return refused(write)

    def run() -> dict[str, torch.Tensor]:
        write()
        return {"value": values[0, 0, 0].view(E4M3).float()}

    return Call(run, lambda: {"value": Exact(x.to(E4M3).float()[0, 0])})


@cases("extend_attention_cpu")
def extend_attention_capped(library: Any, draw: Draw) -> Call:
    """Scores of 128 and -128 with a cap of 1."""
    query = torch.full((2, 1, SIZE), 4.0, dtype=torch.bfloat16)
    keys = torch.stack([torch.ones(1, SIZE), -torch.ones(1, SIZE)]).bfloat16()
    values = torch.stack([torch.ones(1, SIZE), torch.zeros(1, SIZE)]).bfloat16()
    two, zero, out = torch.tensor([2]), torch.zeros(1).long(), draw.output((2, 1, SIZE), torch.bfloat16)

    def run() -> dict[str, torch.Tensor]:
        library.extend_attention_cpu(
            query,
            keys,
            values,
            out,
            keys,
            values,
            torch.arange(2)[None],
            zero,
            two,
            two,
            zero,
            2,
            1.0,
            1.0,
            False,
            0,
            None,
            None,
        )
        return {"near": (out[1].float() - 1 / (1 + math.exp(-2))).abs() < 0.01}

    return Call(run, lambda: {"near": Exact(torch.ones(1, SIZE, dtype=torch.bool))})


@cases("decode_attention_cpu")
def decode_attention_window_behind_encoder(library: Any, draw: Draw) -> Call:
    """Three tokens behind three of an encoder, of which the window shows the last two: their average is 4.5."""
    query, keys = (torch.zeros(count, 1, SIZE, dtype=torch.bfloat16) for count in (1, 6))
    values = torch.arange(6.0)[:, None, None].repeat(1, 1, SIZE).bfloat16()
    out, scratch = draw.output((1, 1, SIZE), torch.bfloat16), torch.zeros(1, 1, 1, SIZE + 1)
    three, zero = torch.tensor([3]), torch.zeros(1).long()

    def run() -> dict[str, torch.Tensor]:
        library.decode_attention_cpu(
            query,
            keys,
            values,
            out,
            None,
            None,
            None,
            scratch,
            torch.arange(6)[None],
            zero,
            three,
            1.0,
            0.0,
            False,
            2,
            three,
            None,
        )
        return {"out": out}

    return Call(run, lambda: {"out": Exact(torch.full((1, 1, SIZE), 4.5, dtype=torch.bfloat16))})


@cases("flash_mla_with_kvcache_cpu", code=[0, 1, 7])
def flash_mla_small_latents(library: Any, draw: Draw, *, code: int) -> Call:
    """One latent vector whose components are zero or subnormal in E4M3, with scales of one: it is what comes out."""
    cache = torch.zeros((1, PLAIN + 2 * ROTATED + SCALES), dtype=torch.uint8)
    cache[:, :PLAIN], cache[:, -SCALES:] = code, 127
    query, out = (torch.zeros(1, 1, PLAIN + ROTATED, dtype=torch.bfloat16), draw.output((1, 1, 512), torch.bfloat16))
    slots, none, sink = torch.zeros(1, 1).long(), torch.zeros(1, 0).long(), torch.full([1], -torch.inf)

    def run() -> dict[str, torch.Tensor]:
        library.flash_mla_with_kvcache_cpu(out, query, cache, slots, 1, cache, none, 1, sink, 1.0)
        return {"plain": out[..., :PLAIN]}

    return Call(run, lambda: {"plain": Exact(torch.full((1, 1, PLAIN), code * 2.0**-9, dtype=torch.bfloat16))})
