"""Attention of new tokens to those before, which are found through a table, and to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from cases.token_table import expected, has_products, tokens
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Near
from oracles.attention import Roundings, visible

DTYPES = [torch.bfloat16, torch.float16]
BATCHES: Mapping[str, Sequence[tuple[int, int]]] = {
    "one": [(0, 1)],
    "fresh": [(0, 9), (0, 33), (0, 70)],
    "continued": [(64, 17), (5, 1), (130, 40)],
    "mixed": [(0, 23), (40, 5), (128, 31)],
    # The kernel takes 32, 128 or 256 queries at once if the longest request has up to 256, 1024 or 4096.
    "257": [(70, 257), (0, 3)],
    "1025": [(0, 1025)],
}
"""How many tokens each request has had before, and how many are new."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "int32": {"index": torch.int32},
    "window=1": {"window": 1},
    "window=7": {"window": 7},
    "window=40": {"window": 40},
    "window=100": {"window": 100},
    "sinks": {"sinks": True},
    "sinks_window": {"sinks": True, "window": 17},
    "cross": {"encoder": "cross"},
    "cross_sinks": {"encoder": "cross", "sinks": True},
    "behind_encoder": {"encoder": "before"},
    "strided": {"strided": True},
    "sharp": {"spread": 40.0},
}


def extend(
    library: Any,
    draw: Draw,
    dtype: torch.dtype,
    lengths: Sequence[tuple[int, int]],
    *,
    heads: tuple[int, int] = (4, 2),
    sizes: tuple[int, int] = (64, 64),
    index: torch.dtype = torch.int64,
    window: int = 0,
    sinks: bool = False,
    encoder: str = "",
    strided: bool = False,
    spread: float = 1.0,
    softcap: float = 0.0,
    tree: bool = False,
    buffered: int | None = None,
) -> Call:
    """New tokens of each request.

    Args:
        encoder: "cross" if the queries see the encoder's tokens, which are first in the table, and only those;
            "before" if those behind them.
        tree: Whether new tokens are a tree, and see only their ancestors (Miao et al. 2023, arXiv:2305.09781,
            section 4).
        buffered: How many heads the buffers have, if not as many as new keys.
    """
    if not has_products(library, dtype):
        return _refused(library, draw, dtype)
    encoded = [4 + 31 * number for number, _ in enumerate(lengths)] if encoder else [0] * len(lengths)
    before = [prefix for prefix, _ in lengths]
    counts = [new for _, new in lengths]
    held = tokens(
        draw,
        dtype,
        [sum(parts) for parts in zip(encoded, before, counts, strict=True)],
        buffered or heads[1],
        sizes,
        index=index,
    )
    place = (lambda part: draw.strided(part, 32)) if strided else (lambda part: part)
    query = place(draw.normal((sum(counts), heads[0], sizes[0]), dtype, spread))
    keys, values = (place(draw.normal((sum(counts), heads[1], size), dtype)) for size in sizes)
    for mine, one, prefix in zip(held.slots, encoded, before, strict=True):
        held.keys[mine[one + prefix :]] = torch.nan
        held.values[mine[one + prefix :]] = torch.nan
    masks = [_tree(draw, count) for count in counts] if tree else None
    sink = draw.normal([heads[0]], dtype, 3.0) if sinks else None
    out, scale = draw.output((*query.shape[:2], sizes[1]), dtype), sizes[0] ** -0.5
    new = torch.tensor(counts, dtype=index)
    cross = encoder == "cross"

    def run() -> dict[str, torch.Tensor]:
        library.extend_attention_cpu(
            query,
            None if cross else keys,
            None if cross else values,
            out,
            held.keys,
            held.values,
            held.table,
            held.rows,
            torch.tensor([sum(pair) for pair in lengths]),
            new,
            new.cumsum(0, dtype=index) - new,
            max(counts),
            scale,
            softcap,
            cross,
            window,
            torch.tensor(encoded) if encoder else None,
            sink,
            None if masks is None else torch.cat([mask.flatten() for mask in masks]),
        )
        return {"out": out}

    def seen(number: int, queries: int, count: int) -> torch.Tensor:
        if cross:
            return visible(queries, count, causal=False)
        found = visible(queries, count, causal=True, window=window or None)
        if masks is not None:
            found[:, -queries:] = masks[number]
        return found

    def judge() -> dict[str, Near]:
        def all_of(buffer: torch.Tensor, fresh: torch.Tensor) -> list[torch.Tensor]:
            parts = zip(held.slots, encoded, before, fresh.split(counts), strict=True)
            if cross:
                return [buffer[mine[:one]] for mine, one, _, _ in parts]
            return [
                torch.cat([buffer[mine[one : one + prefix]], part]) if prefix else part
                for mine, one, prefix, part in parts
            ]

        found = expected(
            query.split(counts),
            all_of(held.keys, keys),
            all_of(held.values, values),
            seen,
            sinks=sink,
            roundings=Roundings(weights=dtype),
            scale=scale,
            softcap=softcap,
        )
        return {"out": found}

    return Call(run, judge)


def _tree(draw: Draw, count: int) -> torch.Tensor:
    """Return whether each node of a tree has each other as ancestor, or is it; parents come before their children."""
    mask = torch.eye(count, dtype=torch.bool)
    for node in range(1, count):
        mask[node] |= mask[int(draw.integers([1], 0, node))]
    return mask


@cases(
    "extend_attention_cpu",
    dtype=DTYPES,
    heads=[(1, 1), (4, 4), (8, 2), (3, 1)],
    sizes=[(32, 32), (64, 64), (96, 32), (192, 128)],
    batch=["one", "fresh", "continued", "mixed"],
    where=lambda dtype, heads, **_: dtype == torch.bfloat16 or heads == (8, 2),
)
def extend_attention(
    library: Any, draw: Draw, *, dtype: torch.dtype, heads: tuple[int, int], sizes: tuple[int, int], batch: str
) -> Call:
    """Requests that are new, that had tokens before, and both."""
    return extend(library, draw, dtype, BATCHES[batch], heads=heads, sizes=sizes)


@cases("extend_attention_cpu", dtype=DTYPES, option=list(OPTIONS), batch=["fresh", "continued", "mixed"])
def extend_attention_options(library: Any, draw: Draw, *, dtype: torch.dtype, option: str, batch: str) -> Call:
    """Windows, sinks, encoders, and parts of wider rows."""
    return extend(library, draw, dtype, BATCHES[batch], sizes=(96, 64), **OPTIONS[option])


@cases(
    "extend_attention_cpu",
    dtype=DTYPES,
    cap=[1.0, 30.0],
    option=["int32", "window=7", "sinks", "behind_encoder"],
    batch=["continued", "mixed"],
)
def extend_attention_softcap(
    library: Any, draw: Draw, *, dtype: torch.dtype, cap: float, option: str, batch: str
) -> Call:
    """Caps on scores that are within and beyond them, with what hides some of the tokens."""
    return extend(library, draw, dtype, BATCHES[batch], sizes=(96, 64), softcap=cap, spread=8.0, **OPTIONS[option])


@cases("extend_attention_cpu", dtype=[torch.bfloat16], batch=["257", "1025"], window=[0, 90])
def extend_attention_long(library: Any, draw: Draw, *, dtype: torch.dtype, batch: str, window: int) -> Call:
    """Requests with more new tokens than the kernel takes at once."""
    return extend(library, draw, dtype, BATCHES[batch], heads=(1, 1), sizes=(32, 32), window=window)


@cases(
    "extend_attention_cpu",
    dtype=DTYPES,
    prefix=[0, 1, 70],
    count=[1, 8, 33, 70],
    deep={"prefix": lambda st: st.integers(0, 300), "count": lambda st: st.integers(1, 100)},
)
def extend_attention_tree(library: Any, draw: Draw, *, dtype: torch.dtype, prefix: int, count: int) -> Call:
    """Drafts of which each token sees its ancestors."""
    return extend(library, draw, dtype, [(prefix, count), (prefix + 9, count)], tree=True)


@cases("extend_attention_cpu", dtype=[torch.bfloat16])
def extend_attention_fresh_mla(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
    """Buffers with one head and keys with several: only for requests that had no tokens before."""
    return extend(library, draw, dtype, BATCHES["fresh"], heads=(4, 4), sizes=(96, 64), buffered=1)


WRONG: Mapping[str, Mapping[str, Any]] = {
    "heads": {"heads": (4, 4), "buffered": 1},
    "key_size": {"sizes": (48, 64)},
    "value_size": {"sizes": (64, 80)},
    "window_of_tree": {"tree": True, "window": 7},
    "cross_tree": {"tree": True, "encoder": "cross"},
}


@cases("extend_attention_cpu", wrong=list(WRONG))
def extend_attention_refused(library: Any, draw: Draw, *, wrong: str) -> Call:
    """What the kernel cannot do."""
    call = extend(library, draw, torch.bfloat16, [(8, 8), (20, 8)], **WRONG[wrong])
    return refused(call.run)


def _refused(library: Any, draw: Draw, dtype: torch.dtype) -> Call:
    """Types whose products torch does not have on this processor."""
    part, one, none = draw.normal((1, 1, 32), dtype), torch.ones(1, dtype=torch.int64), torch.zeros(1).long()
    table, out = torch.zeros(1, 1, dtype=torch.int64), draw.output((1, 1, 32), dtype)
    arguments = (part, part, part, out, part, part, table, none, one, one, none, 1, 1.0, 0.0, False, 0, None, None)
    return refused(lambda: library.extend_attention_cpu(*arguments))
