"""Writing keys and values to a paged cache."""

from __future__ import annotations

from typing import Any

import torch

from cases.paged_batch import FP8, has_kernel
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Near
from oracles.fp8_quantisation import exact_ties
from oracles.paged_cache import written

BLOCKS = 5
TOKENS = {"many": 33, "one": 1, "none": 0}


def _slots(draw: Draw, tokens: int, block: int) -> torch.Tensor:
    """Return slots in any order; every fourth token is padding."""
    slots = draw.permutation(BLOCKS * block)[:tokens]
    slots[3::4] = -1
    return slots


@cases(
    "cpu_attn_reshape_and_cache",
    isa=["vec", "vec16"],
    dtype=[torch.float32, torch.bfloat16, torch.float16],
    size=[32, 80, 128],
    block=[32, 48, 128],
    tokens=list(TOKENS),
    strided=[False, True],
    where=lambda isa, size, block, tokens, strided, **_: (
        (isa == "vec16" or size % 32 == 0) and (tokens == "many" or (block == 32 and not strided))
    ),
)
def paged_cache(
    library: Any, draw: Draw, *, isa: str, dtype: torch.dtype, size: int, block: int, tokens: str, strided: bool
) -> Call:
    """The cache keeps what it is given, bit for bit, where it belongs; the rest of it stays."""
    place = draw.strided if strided else draw.guarded
    keys, values = (place(draw.normal((TOKENS[tokens], 3, size), dtype)) for _ in range(2))
    whole = draw.guarded(draw.normal((BLOCKS, 3, 2 * block, size), dtype))
    slots = _slots(draw, TOKENS[tokens], block)

    def run() -> dict[str, torch.Tensor]:
        library.cpu_attn_reshape_and_cache(keys, values, *whole.chunk(2, 2), slots, isa)
        return {"cache": whole}

    def expected() -> dict[str, Exact]:
        key_cache, value_cache = whole.chunk(2, 2)
        parts = [written(key_cache, keys, slots, apart=True), written(value_cache, values, slots)]
        return {"cache": Exact(torch.cat(parts, 2))}

    return Call(run, expected)


@cases(
    "cpu_attn_reshape_and_cache",
    "get_scheduler_metadata",
    dtype=[torch.float32, torch.bfloat16, torch.float16],
    cache=["fp8_e4m3", "fp8_e5m2", "fp8"],
    size=[32, 96],
    scale=[1.0, 0.37],
    extreme=[False, True],
)
def paged_cache_fp8(
    library: Any, draw: Draw, *, dtype: torch.dtype, cache: str, size: int, scale: float, extreme: bool
) -> Call:
    """What is beyond the largest number of the format becomes that number."""
    shape = (9, 3, size)
    keys, values = (draw.extremes(shape, dtype) if extreme else draw.normal(shape, dtype) for _ in range(2))
    form = FP8.get(cache, torch.float8_e4m3fn)
    before = [draw.normal((BLOCKS, 3, 32, size)).to(form) for _ in range(2)]
    key_cache, value_cache = (draw.guarded(part.view(torch.uint8)) for part in before)
    slots = _slots(draw, 9, 32)
    arguments = (keys, values, key_cache, value_cache, slots, "vec", scale, 2 * scale, cache)
    if not has_kernel(library, "vec", size, dtype, cache):
        return refused(lambda: library.cpu_attn_reshape_and_cache(*arguments))

    def run() -> dict[str, torch.Tensor]:
        library.cpu_attn_reshape_and_cache(*arguments)
        return {"keys": key_cache.view(form), "values": value_cache.view(form)}

    def expected() -> dict[str, Near]:
        key_part, value_part = (part.double() for part in before)
        return {
            "keys": Near(written(key_part, keys.double() / scale, slots, apart=True)),
            "values": Near(written(value_part, values.double() / (2 * scale), slots)),
        }

    return Call(run, expected)


@cases(
    "cpu_attn_reshape_and_cache",
    "get_scheduler_metadata",
    dtype=[torch.float32, torch.bfloat16, torch.float16],
    cache=list(FP8),
)
def paged_cache_fp8_ties(library: Any, draw: Draw, *, dtype: torch.dtype, cache: str) -> Call:
    """What lies between two numbers of the format becomes the one with the even code (IEEE 754, 4.3.1)."""
    middles, even = (part[:192] for part in exact_ties(FP8[cache], dtype))
    x, codes = middles.view(-1, 1, 32), even.view(torch.uint8).view(-1, 32)
    whole = draw.guarded(torch.zeros(1, 1, 64, 32, dtype=torch.uint8))
    keys, values = whole.chunk(2, 2)
    slots = torch.arange(len(x))

    def write() -> None:
        library.cpu_attn_reshape_and_cache(x, x, keys, values, slots, "vec", 1.0, 1.0, cache)

    if not has_kernel(library, "vec", 32, dtype, cache):
        return refused(write)

    def run() -> dict[str, torch.Tensor]:
        write()
        return {"values": values[0, 0, : len(x)]}

    return Call(run, lambda: {"values": Exact(codes)})


@cases(
    "concat_and_cache_mla_cpu",
    dtype=[torch.bfloat16, torch.float16],
    # What is compressed, and what is rotated: DeepSeek V3 has 512 and 64.
    sizes=[(512, 64), (64, 32), (33, 1), (7, 31)],
    tokens=list(TOKENS),
    slots=[torch.int32, torch.int64],
    padded=[False, True],
    with_head=[False, True],
    where=lambda sizes, slots, padded, with_head, **_: (
        sizes == (512, 64) or (padded == with_head == (slots == torch.int64))
    ),
)
def mla_cache(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    sizes: tuple[int, int],
    tokens: str,
    slots: torch.dtype,
    padded: bool,
    with_head: bool,
) -> Call:
    """A token's two parts side by side; the inputs, and the cache, may be parts of wider rows."""
    place = draw.strided if padded else draw.guarded
    compressed, rotated = (place(draw.normal((TOKENS[tokens], size), dtype)) for size in sizes)
    if with_head:
        rotated = rotated[:, None]
    cache = place(draw.normal((BLOCKS, 16, sum(sizes)), dtype))
    where = _slots(draw, TOKENS[tokens], 16).to(slots)

    def run() -> dict[str, torch.Tensor]:
        library.concat_and_cache_mla_cpu(compressed, rotated, cache, where)
        return {"cache": cache}

    def expected() -> dict[str, Exact]:
        rows = torch.cat([compressed, rotated.flatten(1)], -1)
        return {"cache": Exact(written(cache, rows, where))}

    return Call(run, expected)


@cases("concat_and_cache_mla_cpu", wrong=["dtype", "float32", "size", "slots", "slot_dtype", "stride", "dimensions"])
def mla_cache_refused(library: Any, draw: Draw, *, wrong: str) -> Call:
    """Shapes and types that do not fit."""
    dtype = torch.float32 if wrong == "float32" else torch.bfloat16
    compressed, rotated, cache = (draw.normal(shape, dtype) for shape in ((4, 64), (4, 32), (2, 16, 96)))
    slots = torch.arange(4)
    if wrong == "dtype":
        rotated = rotated.half()
    elif wrong == "size":
        rotated = rotated[:, :31]
    elif wrong == "slots":
        slots = slots[:3]
    elif wrong == "slot_dtype":
        slots = slots.short()
    elif wrong == "stride":
        compressed = draw.normal((64, 4), dtype).T
    elif wrong == "dimensions":
        cache = cache[0]
    return refused(lambda: library.concat_and_cache_mla_cpu(compressed, rotated, cache, slots))
