"""Attention with keys and values that are found through a table of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cases.token_table import expected, has_products, tokens
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected
from oracles.attention import Roundings, visible

DTYPES = [torch.bfloat16, torch.float16]
LENGTHS: Mapping[str, Sequence[int]] = {
    "one": [1],
    "short": [5, 16, 33],
    "long": [300, 1, 129, 7],
    "many": [1 + 3 * number for number in range(17)],
}
DECODE_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "int32": {"index": torch.int32},
    "softcap=30": {"softcap": 30.0, "spread": 8.0},
    "softcap=1": {"softcap": 1.0, "spread": 8.0},
    "window=1": {"window": 1},
    "window=40": {"window": 40},
    "sinks": {"sinks": True},
    "sinks_window": {"sinks": True, "window": 17},
    "sinks_splits": {"sinks": True, "splits": 4},
    "new": {"new": True},
    "cross": {"encoder": "cross"},
    "behind_encoder": {"encoder": "before"},
    "sharp": {"spread": 40.0},
}


def decode(
    library: Any,
    draw: Draw,
    dtype: torch.dtype,
    lengths: Sequence[int],
    *,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    mla: bool = False,
    splits: int = 1,
    index: torch.dtype = torch.int64,
    softcap: float = 0.0,
    spread: float = 1.0,
    window: int = 0,
    sinks: bool = False,
    new: bool = False,
    encoder: str = "",
) -> Call:
    """One query of each request.

    Args:
        splits: Into how many parts the keys of a query are divided.
        new: Whether the last token of each request is written to the buffers by the call.
        encoder: "cross" if the queries see the encoder's tokens, which are first in the table; "before" if those
            behind them.
    """
    encoded = [4 + 3 * number for number, _ in enumerate(lengths)] if encoder else [0] * len(lengths)
    all_lengths = [a + b for a, b in zip(encoded, lengths, strict=True)]
    held = tokens(draw, dtype, all_lengths, heads[1], sizes, index=index, shared=mla)
    query = draw.normal((len(lengths), heads[0], sizes[0]), dtype, spread)
    sink = draw.normal([heads[0]], dtype, 3.0) if sinks else None
    name, out = "latent" if mla else "out", draw.output((*query.shape[:2], sizes[1]), dtype)
    scratch = draw.output((len(lengths), heads[0], splits, sizes[1] + 1), torch.float32)
    lasts = torch.stack([slots[-1] for slots in held.slots])
    parts = (held.keys[lasts], held.values[lasts], lasts) if new else (None, None, None)
    if new:
        held.keys[lasts] = torch.nan
        held.values[lasts] = torch.nan
    scale = sizes[0] ** -0.5

    def run() -> dict[str, torch.Tensor]:
        library.decode_attention_cpu(
            query,
            held.keys,
            held.values,
            out,
            *parts,
            scratch,
            held.table,
            held.rows,
            torch.tensor(lengths),
            scale,
            softcap,
            encoder == "cross",
            window,
            torch.tensor(encoded) if encoder else None,
            sink,
        )
        return {name: out, "keys": held.keys, "values": held.values}

    def judge() -> dict[str, Expected]:
        keys, values = held.keys.clone(), held.values.clone()
        if new:
            keys[lasts], values[lasts] = parts[:2]
        slots = [
            mine[:count] if encoder == "cross" else mine[count:]
            for mine, count in zip(held.slots, encoded, strict=True)
        ]
        found = expected(
            query[:, None],
            [keys[mine] for mine in slots],
            [values[mine] for mine in slots],
            lambda _, queries, count: visible(queries, count, causal=True, window=window or None),
            sinks=sink,
            roundings=Roundings(weights=dtype if mla else torch.float32),
            scale=scale,
            softcap=softcap,
        )
        return {name: found, "keys": Exact(keys), "values": Exact(values)}

    return Call(run, judge)


# Keys of each head, keys that heads share, and more heads than the kernel takes at once; 72 and 40, 33 and 17 are no
# multiples of its vectors.
@cases(
    "decode_attention_cpu",
    dtype=DTYPES,
    heads=[(1, 1), (4, 4), (8, 2), (5, 1), (20, 1)],
    sizes=[(64, 64), (128, 96), (72, 40), (33, 17)],
    lengths=["one", "short", "long"],
    splits=[1, 3, 8],
    where=lambda sizes, lengths, splits, **_: (
        (splits == 3 and lengths == "short") or (sizes == (64, 64) and lengths != "short")
    ),
)
def decode_attention(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    lengths: str,
    splits: int,
) -> Call:
    """More parts than keys leave some parts empty."""
    return decode(library, draw, dtype, LENGTHS[lengths], heads=heads, sizes=sizes, splits=splits)


@cases(
    "decode_attention_cpu",
    dtype=DTYPES,
    heads=[(4, 4), (8, 2)],
    option=list(DECODE_OPTIONS),
    lengths=["short", "long"],
    where=lambda heads, lengths, **_: (heads == (4, 4)) == (lengths == "short"),
)
def decode_attention_options(
    library: Any, draw: Draw, *, dtype: torch.dtype, heads: tuple[int, int], option: str, lengths: str
) -> Call:
    """Masks, caps, sinks, new tokens, and requests with an encoder."""
    options = {"splits": 2, **DECODE_OPTIONS[option]}
    return decode(library, draw, dtype, LENGTHS[lengths], heads=heads, sizes=(96, 64), **options)


@cases("decode_attention_cpu", dtype=DTYPES, heads=[(4, 4), (8, 2)], window=[1, 40], lengths=["short", "long"])
def decode_attention_encoder_window(
    library: Any, draw: Draw, *, dtype: torch.dtype, heads: tuple[int, int], window: int, lengths: str
) -> Call:
    """Windows that show the last of the tokens behind an encoder's."""
    options = {"splits": 2, "window": window, "encoder": "before"}
    return decode(library, draw, dtype, LENGTHS[lengths], heads=heads, sizes=(96, 64), **options)


# DeepSeek V3's heads, and small ones; one request, few and many, as the kernel then takes 6, 11 or 22 heads at once.
@cases(
    "decode_attention_cpu",
    dtype=DTYPES,
    sizes=[(576, 512), (128, 64)],
    heads=[2, 7, 23],
    lengths=["one", "short", "long", "many"],
    option=["", "sinks", "sinks_splits", "new", "int32"],
    where=lambda sizes, heads, lengths, option, **_: (
        (sizes == (128, 64) or (heads == 7 and lengths == "short"))
        and (not option or (heads == 7 and lengths == "long"))
    ),
)
def decode_attention_mla(
    library: Any, draw: Draw, *, dtype: torch.dtype, sizes: tuple[int, int], heads: int, lengths: str, option: str
) -> Call:
    """Values are the first elements of the keys, which all heads share."""
    options = DECODE_OPTIONS.get(option, {})
    call = decode(library, draw, dtype, LENGTHS[lengths], heads=(heads, 1), sizes=sizes, mla=True, **options)
    if has_products(library, dtype):
        return call
    return refused(call.run)


WRONG: Mapping[str, Callable[[list[Any]], object]] = {
    "float32": lambda call: [call.__setitem__(at, call[at].float()) for at in range(4)],
    "table": lambda call: call.__setitem__(8, call[8].short()),
    "rows": lambda call: call.__setitem__(9, call[9].int()),
    "lengths": lambda call: call.__setitem__(10, call[10].int()),
    "scratch": lambda call: call.__setitem__(7, call[7][..., :-1].contiguous()),
    "row": lambda call: call.__setitem__(9, call[9] + 4),
    "length": lambda call: call.__setitem__(10, call[10] + 9),
    "slot": lambda call: call.__setitem__(8, call[8] + 1000),
    "sinks": lambda call: call.__setitem__(-1, torch.zeros(3, dtype=torch.bfloat16)),
    "key_alone": lambda call: call.__setitem__(4, call[1][:2].clone()),
    "stride": lambda call: call.__setitem__(0, call[0].mT.contiguous().mT),
}


@cases("decode_attention_cpu", wrong=list(WRONG))
def decode_attention_refused(library: Any, draw: Draw, *, wrong: str) -> Call:
    """Types and sizes that do not fit, and indices that are out of range."""
    held = tokens(draw, torch.bfloat16, [5, 9], 2, (64, 64))
    query, out = draw.normal((2, 4, 64), torch.bfloat16), draw.output((2, 4, 64), torch.bfloat16)
    scratch = draw.output((2, 4, 1, 65), torch.float32)
    call = [
        query,
        held.keys,
        held.values,
        out,
        None,
        None,
        None,
        scratch,
        held.table,
        held.rows,
        torch.tensor([5, 9]),
        0.1,
        0.0,
        False,
        0,
        None,
        None,
    ]
    WRONG[wrong](call)
    return refused(lambda: library.decode_attention_cpu(*call))


@cases("decode_attention_cpu")
def decode_attention_mla_softcap(library: Any, draw: Draw) -> Call:
    """Shared keys and values are refused with a cap."""
    call = decode(library, draw, torch.bfloat16, [5], heads=(4, 1), sizes=(128, 64), mla=True, softcap=30.0)
    return refused(call.run)
