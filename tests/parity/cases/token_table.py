"""Requests whose tokens are found through a table, and what is expected of attention to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from harness.draw import Draw
from harness.expected import Near
from oracles import attention
from oracles.attention import Roundings

SPARE = 9
"""Slots that no request uses; they are not a number."""


@dataclass(frozen=True)
class Tokens:
    """Keys and values of several requests, each token in some slot of the buffers.

    Attributes:
        table: Row of a request, place in the sequence: slot.
        rows: The row of each request.
        slots: The slots of each request.
        keys: (slots, heads, key size).
        values: (slots, heads, value size).
    """

    table: torch.Tensor
    rows: torch.Tensor
    slots: Sequence[torch.Tensor]
    keys: torch.Tensor
    values: torch.Tensor


def tokens(
    draw: Draw,
    dtype: torch.dtype,
    lengths: Sequence[int],
    heads: int,
    sizes: tuple[int, int],
    *,
    index: torch.dtype = torch.int64,
    shared: bool = False,
) -> Tokens:
    """Draw the tokens of requests.

    Args:
        lengths: Of the requests.
        heads: Of keys and values.
        sizes: Of keys and values.
        index: The type of the table.
        shared: Whether values are the first elements of keys.
    """
    count = sum(lengths) + SPARE
    order = draw.permutation(count)
    slots = order[:-SPARE].split(list(lengths))
    rows = draw.permutation(len(lengths) + 2)[: len(lengths)]
    table = order[-1].repeat(len(lengths) + 2, max(lengths) + 3)
    for row, mine in zip(rows.tolist(), slots, strict=True):
        table[row, : len(mine)] = mine
    keys = draw.normal((count, heads, sizes[0]), dtype)
    values = keys[..., : sizes[1]] if shared else draw.normal((count, heads, sizes[1]), dtype)
    keys[order[-SPARE:]] = torch.nan
    values[order[-SPARE:]] = torch.nan
    return Tokens(table.to(index), rows, slots, keys, values)


def expected(
    queries: Sequence[torch.Tensor],
    keys: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    seen: Callable[[int, int, int], torch.Tensor],
    *,
    sinks: torch.Tensor | None,
    roundings: Roundings,
    scale: float,
    softcap: float = 0.0,
) -> Near:
    """Return what each request's queries get; ``seen`` is given the request, and how many queries and keys it has."""
    return attention.joined(
        [
            attention.attention(
                query.double(),
                key.double(),
                value.double(),
                seen(number, len(query), len(key)),
                scale=scale,
                softcap=softcap,
                sinks=None if sinks is None else sinks.double(),
                roundings=roundings,
            )
            for number, (query, key, value) in enumerate(zip(queries, keys, values, strict=True))
        ]
    )


@cache
def has_products(library: Any, dtype: torch.dtype) -> bool:
    """Return whether torch multiplies packed matrices of this type on this processor; kernels refuse if not."""
    part = torch.ones(1, 1, 32, dtype=dtype)
    table, one, none = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, dtype=torch.int64), torch.zeros(1).long()
    try:
        library.extend_attention_cpu(
            part, part, part, part.clone(), part, part, table, none, one, one, none, 1, 1.0, 0.0, False, 0, None, None
        )
    except RuntimeError as error:
        if "brgemm" in str(error).lower():
            return False
        raise
    return True
