"""Decoding with a cache of compressed keys and values (multi-head latent attention)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Near
from oracles import attention

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# What the kernel takes, and no other: DeepSeek V2 and V3.
SIZE, VALUE_SIZE, BLOCK = 576, 512, 16
LENGTHS: Mapping[str, Sequence[int]] = {"long": [100, 1, 33, 250], "block": [15, 16, 17], "one": [1]}


@cases(
    "mla_decode_kvcache",
    dtype=DTYPES,
    heads=[1, 2, 3, 16],
    requests=list(LENGTHS),
    padded=[False, True],
    # With 80 exp() of a score is infinite unless the largest one is taken away first.
    spread=[1.0, 10.0, 80.0],
    where=lambda heads, requests, padded, spread, **_: (
        (not padded or heads == 3) and (spread == 1.0 or requests == "long")
    ),
    deep={"heads": lambda st: st.integers(1, 20), "more": lambda st: st.integers(1, 400)},
)
def mla_decode(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    heads: int,
    requests: str,
    padded: bool,
    spread: float,
    more: int = 1,
) -> Call:
    """One query of each request; its values are the first components of its keys. Unused slots are not a number."""
    place = (lambda part: draw.strided(part, 64)) if padded else draw.guarded
    lengths = [*LENGTHS[requests], more]
    query = place(draw.normal((len(lengths), heads * SIZE), dtype, spread)).unflatten(1, (heads, SIZE))
    counts = [-(-length // BLOCK) for length in lengths]
    blocks = sum(counts) + 1
    order = draw.permutation(blocks)
    table = torch.full((len(lengths), max(counts) + 1), int(order[-1]), dtype=torch.int32)
    cache = place(torch.full((blocks, BLOCK * SIZE), torch.nan, dtype=dtype)).unflatten(1, (BLOCK, SIZE))
    sequences = [draw.normal((length, SIZE), dtype) for length in lengths]
    for row, mine, keys in zip(table, order[:-1].split(counts), sequences, strict=True):
        row[: len(mine)] = mine
        for number, part in zip(mine, keys.split(BLOCK), strict=True):
            cache[number, : len(part)] = part
    out = place(torch.full((len(lengths), heads * VALUE_SIZE), torch.nan, dtype=dtype)).unflatten(
        1, (heads, VALUE_SIZE)
    )
    # DeepSeek V3 scales by the size of heads that are not compressed.
    scale = 192**-0.5

    def run() -> dict[str, torch.Tensor]:
        library.mla_decode_kvcache(out, query, cache, scale, table, torch.tensor(lengths, dtype=torch.int32))
        return {"out": out}

    def expected() -> dict[str, Near]:
        parts = [
            attention.attention(
                one[None].double(),
                keys[:, None].double(),
                keys[:, None, :VALUE_SIZE].double(),
                attention.visible(1, len(keys), causal=True),
                scale=scale,
            )
            for one, keys in zip(query, sequences, strict=True)
        ]
        return {"out": attention.joined(parts)}

    return Call(run, expected)


@cases("mla_decode_kvcache", sizes=[(576, 512, 32), (576, 576, 16), (320, 256, 16), (512, 512, 16)])
def mla_decode_refused(library: Any, draw: Draw, *, sizes: tuple[int, int, int]) -> Call:
    """Other sizes of keys, values and blocks."""
    size, value_size, block = sizes
    query, cache = draw.normal((1, 2, size)), draw.normal((1, block, size))
    out, table, lengths = draw.output((1, 2, value_size), torch.float32), torch.zeros(1, 1).int(), torch.ones(1).int()
    return refused(lambda: library.mla_decode_kvcache(out, query, cache, 1.0, table, lengths))
