"""Rotary embedding of queries and keys, in place."""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Near
from harness.ranks import run_ranks, shared
from oracles import rotary

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
POSITIONS = 4096


@cases(
    "rotary_embedding",
    dtype=DTYPES,
    is_neox=[True, False],
    # Head sizes, and how many of their components are rotated: 20 and 40 leave a rest of the vectors, 64 of 128 is
    # GPT-NeoX, 96 Phi 3, 128 Llama.
    sizes=[(64, 64), (40, 40), (64, 20), (128, 64), (96, 96), (128, 128)],
    heads=[(1, 1), (4, 2), (32, 8)],
    tokens=[0, 1, 17],
    with_key=[True, False],
    padded=[False, True],
    # Halves of 16-bit numbers that do not fill vectors: rotary_embedding_rest.
    where=lambda dtype, sizes, **_: dtype is torch.float32 or sizes[1] // 2 % 8 == 0,
)
def rotary_embedding(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    is_neox: bool,
    sizes: tuple[int, int],
    heads: tuple[int, int],
    tokens: int,
    with_key: bool,
    padded: bool,
) -> Call:
    """Query and key may be parts of wider rows, as they are when one product makes both."""
    head, turned = sizes
    place = draw.strided if padded else draw.guarded
    query = place(draw.normal((tokens, heads[0] * head), dtype))
    key = place(draw.normal((tokens, heads[1] * head), dtype)) if with_key else None
    positions = draw.integers([tokens], 0, POSITIONS)
    table = rotary.cos_sin_table(POSITIONS, turned).to(dtype)
    parts = {"query": query} if key is None else {"query": query, "key": key}

    def run() -> dict[str, torch.Tensor]:
        library.rotary_embedding(positions, query, key, head, table, is_neox, 0, False)
        return parts

    def expected() -> dict[str, Near]:
        return {name: _rotated(part, table[positions], head, neox=is_neox) for name, part in parts.items()}

    return Call(run, expected)


@cases("rotary_embedding", dtype=DTYPES, is_neox=[True, False], value=[math.nan, math.inf])
def rotary_embedding_special(library: Any, draw: Draw, *, dtype: torch.dtype, is_neox: bool, value: float) -> Call:
    """What is not a number, or infinite, changes the two components that are turned together, and no others."""
    query = draw.guarded(draw.normal((3, 2 * 64), dtype))
    query[0, 0], query[1, 127], query[2, 40] = value, value, value
    positions = torch.tensor([3, 7, 1])
    table = rotary.cos_sin_table(8, 64).to(dtype)

    def run() -> dict[str, torch.Tensor]:
        library.rotary_embedding(positions, query, None, 64, table, is_neox, 0, False)
        return {"query": query}

    return Call(run, lambda: {"query": _rotated(query, table[positions], 64, neox=is_neox)})


@cases("rotary_embedding", option=["offset", "inverse"])
def rotary_embedding_unsupported(library: Any, draw: Draw, *, option: str) -> Call:
    """An offset, and turning back, are refused on CPUs."""
    query = draw.normal((2, 64))
    table = rotary.cos_sin_table(8, 64).float()
    arguments = (torch.tensor([0, 1]), query, None, 64, table, True, int(option == "offset"), option == "inverse")
    return refused(lambda: library.rotary_embedding(*arguments))


@cases("rotary_embedding", dtype=[torch.bfloat16, torch.float16], turned=[20, 40])
def rotary_embedding_rest(library: Any, draw: Draw, *, dtype: torch.dtype, turned: int) -> Call:
    """Halves that do not fill vectors of 16-bit numbers, in a process of its own: it may be the end of it."""
    query = shared(draw.guarded(draw.normal((3, 2 * 40), dtype)))
    before, positions = query.clone(), torch.tensor([0, 7, 1])
    table = rotary.cos_sin_table(8, turned).to(dtype)

    def run() -> dict[str, torch.Tensor]:
        arguments = (positions, query, None, 40, table, True, 0, False)
        run_ranks(library, [lambda: library.rotary_embedding(*arguments)])
        return {"query": query}

    def expected() -> dict[str, Near]:
        return {"query": _rotated(before, table[positions], 40, neox=True)}

    return Call(run, expected)


def _rotated(x: torch.Tensor, table: torch.Tensor, head: int, *, neox: bool) -> Near:
    heads = x.double().reshape(len(x), x.shape[-1] // head, head)
    found = rotary.rotate(heads, table.double(), neox=neox)
    assert found.magnitude is not None
    return Near(found.value.reshape(x.shape), found.magnitude.reshape(x.shape))
