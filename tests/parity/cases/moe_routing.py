"""Choosing experts: by biased affinity, and by a table."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected
from oracles import moe_routing

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# Experts, and how many a token has: what kernels are made for. DeepSeek V3 has 256 and 8, V4 6.
SIZES = [(64, 6), (64, 8), (128, 6), (128, 8), (256, 6), (256, 8), (256, 9), (384, 6), (384, 8)]
TABLED = [(64, 6), (64, 7), (128, 8), (256, 6), (256, 7), (256, 8), (384, 6), (384, 8)]
TOKENS = [0, 1, 2, 17]
APART = 2e-5
"""Affinities that decide differ by more than their errors."""


def _logits(draw: Draw, shape: tuple[int, int], dtype: torch.dtype, zone: str) -> torch.Tensor:
    """Return ordinary logits, or some where affinities are nearly 0, or saturated."""
    match zone:
        case "low":
            return draw.uniform(shape, -60, -16, dtype)
        case "high":
            return draw.uniform(shape, 16, 100, dtype)  # exp(100) is infinite
    return draw.normal(shape, dtype, 2.0)


def _distinct(
    draw: Draw, function: str, dtype: torch.dtype, bias: torch.Tensor, tokens: int, count: int
) -> torch.Tensor:
    """Return logits whose best biased affinities differ, so that there is one right choice and order."""
    rows: list[torch.Tensor] = []
    while len(rows) < tokens:
        row = _logits(draw, (1, len(bias)), dtype, "ordinary")
        biased = moe_routing.scores(row.double(), function).value + bias.double()
        best = biased.sort(-1, descending=True).values[0, : count + 1]
        if bool((best.diff() < -APART).all()):
            rows.append(row)
    return torch.cat(rows) if rows else torch.empty((0, len(bias)), dtype=dtype)


@cases(
    "biased_topk_cpu",
    dtype=DTYPES,
    bias_dtype=DTYPES,
    sizes=SIZES,
    function=["sigmoid", "sqrtsoftplus"],
    tokens=TOKENS,
    where=lambda dtype, bias_dtype, sizes, **_: bias_dtype in (dtype, torch.float32) or sizes == (64, 6),
)
def biased_topk(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    bias_dtype: torch.dtype,
    sizes: tuple[int, int],
    function: str,
    tokens: int,
) -> Call:
    """The bias chooses, but does not count; shares are normalised."""
    return _biased(library, draw, dtype, bias_dtype, sizes, function, tokens)


@cases(
    "biased_topk_cpu",
    dtype=[torch.float32],
    function=["sigmoid", "sqrtsoftplus"],
    normalised=[True, False],
    # Whether the factor counts; without it kernels leave shares alone.
    scaled=[True, False],
    shared=[0, 1],
)
def biased_topk_options(
    library: Any, draw: Draw, *, dtype: torch.dtype, function: str, normalised: bool, scaled: bool, shared: int
) -> Call:
    """Shares as they are, a factor, and a shared expert after the others."""
    return _biased(library, draw, dtype, dtype, (128, 8), function, 5, normalised, scaled, shared)


def _biased(
    library: Any,
    draw: Draw,
    dtype: torch.dtype,
    bias_dtype: torch.dtype,
    sizes: tuple[int, int],
    function: str,
    tokens: int,
    normalised: bool = True,
    scaled: bool = True,
    shared: int = 0,
) -> Call:
    experts, count = sizes
    bias = draw.normal([experts], bias_dtype, 0.1)
    logits = _distinct(draw, function, dtype, bias, tokens, count)
    hidden = torch.empty((tokens, 4), dtype=dtype)
    factor = 2.5

    def run() -> dict[str, torch.Tensor]:
        found, ids = library.biased_topk_cpu(
            hidden, logits, bias, count + shared, normalised, function, shared, factor, scaled
        )
        return {"shares": found, "experts": ids}

    def expected() -> dict[str, Expected]:
        affinities = moe_routing.scores(logits.double(), function)
        chosen = moe_routing.selected(affinities.value + bias.double(), count)
        shares = moe_routing.shares(
            affinities,
            chosen,
            normalised=normalised,
            factor=factor if scaled else 1.0,
            shared=factor if shared else None,
        )
        extra = torch.full((tokens, shared), experts, dtype=torch.int32)
        return {"shares": shares, "experts": Exact(torch.cat([chosen, extra], -1))}

    return Call(run, expected)


@cases("biased_topk_cpu", dtype=DTYPES, function=["sigmoid", "sqrtsoftplus"], zone=["low", "high"])
def biased_topk_saturated(library: Any, draw: Draw, *, dtype: torch.dtype, function: str, zone: str) -> Call:
    """Affinities near 0 and near 1, or large ones; the bias alone chooses."""
    tokens, experts, count = 17, 256, 8
    bias = draw.permutation(experts) * 100.0
    logits = _logits(draw, (tokens, experts), dtype, zone)
    hidden = torch.empty((tokens, 4))

    def run() -> dict[str, torch.Tensor]:
        found, ids = library.biased_topk_cpu(hidden, logits, bias, count, False, function, 0, None, False)
        return {"shares": found, "experts": ids}

    def expected() -> dict[str, Expected]:
        chosen = moe_routing.selected(bias.double()[None].expand(tokens, -1), count)
        affinities = moe_routing.scores(logits.double(), function)
        return {"shares": moe_routing.shares(affinities, chosen, normalised=False), "experts": Exact(chosen)}

    return Call(run, expected)


@cases(
    "biased_topk_cpu",
    dtype=[torch.float32, torch.bfloat16],
    sizes=[(64, 6), (384, 8)],
    function=["sigmoid", "sqrtsoftplus"],
    first=[0, 4],
)
def biased_topk_equal(
    library: Any, draw: Draw, *, dtype: torch.dtype, sizes: tuple[int, int], function: str, first: int
) -> Call:
    """Two of those chosen are equal: either may come first."""
    tokens, (experts, count) = 5, sizes
    bias = torch.zeros(experts, dtype=dtype)
    logits = _distinct(draw, function, dtype, bias, tokens, count)
    best = logits.sort(-1, descending=True).indices
    logits.scatter_(-1, best[:, first + 1 : first + 2], logits.gather(-1, best[:, first : first + 1]))
    hidden = torch.empty((tokens, 4))

    def run() -> dict[str, torch.Tensor]:
        found, ids = library.biased_topk_cpu(hidden, logits, bias, count, True, function, 0, None, False)
        return {"shares": found, "experts": ids.sort(-1).values}

    def expected() -> dict[str, Expected]:
        affinities = moe_routing.scores(logits.double(), function)
        chosen = moe_routing.selected(affinities.value, count)
        shares = moe_routing.shares(affinities, chosen, normalised=True)
        return {"shares": shares, "experts": Exact(chosen.sort(-1).values)}

    return Call(run, expected)


@cases("biased_topk_cpu", kind=["experts", "count", "function", "rows", "bias", "strided", "float64"])
def biased_topk_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Other numbers of experts, unknown functions, and shapes that do not fit."""
    experts, count = 65 if kind == "experts" else 64, 5 if kind == "count" else 6
    dtype = torch.float64 if kind == "float64" else torch.float32
    logits = draw.normal((4, experts), dtype)
    logits = draw.strided(logits) if kind == "strided" else logits
    bias = draw.normal([experts - (kind == "bias")])
    hidden = torch.empty((4 + (kind == "rows"), 4))
    function = "softmax" if kind == "function" else "sigmoid"
    return refused(lambda: library.biased_topk_cpu(hidden, logits, bias, count, True, function, 0, None, False))


@cases(
    "hash_topk_cpu",
    dtype=DTYPES,
    sizes=TABLED,
    function=["softmax", "sigmoid", "sqrtsoftplus"],
    tokens=TOKENS,
    shared=[0, 1],
)
def hash_topk(
    library: Any, draw: Draw, *, dtype: torch.dtype, sizes: tuple[int, int], function: str, tokens: int, shared: int
) -> Call:
    """The table chooses; shares that are no softmax are normalised. A shared expert has its own factor."""
    return _tabled(library, draw, dtype, sizes, function, tokens, shared, "ordinary")


@cases("hash_topk_cpu", dtype=DTYPES, function=["softmax", "sigmoid", "sqrtsoftplus"], zone=["low", "high"])
def hash_topk_saturated(library: Any, draw: Draw, *, dtype: torch.dtype, function: str, zone: str) -> Call:
    """Affinities near 0 and near 1, or large ones."""
    return _tabled(library, draw, dtype, (256, 6), function, 17, 0, zone)


def _tabled(
    library: Any,
    draw: Draw,
    dtype: torch.dtype,
    sizes: tuple[int, int],
    function: str,
    tokens: int,
    shared: int,
    zone: str,
) -> Call:
    experts, count = sizes
    logits = _logits(draw, (tokens, experts), dtype, zone)
    table = draw.uniform((tokens, experts), 0, 1).argsort(-1)[:, :count].int().contiguous()
    factor = 2.5

    def run() -> dict[str, torch.Tensor]:
        found, ids = library.hash_topk_cpu(logits, table, count + shared, function, shared, experts, factor)
        return {"shares": found, "experts": ids}

    def expected() -> dict[str, Expected]:
        shares = moe_routing.shares(
            moe_routing.scores(logits.double(), function),
            table,
            normalised=function != "softmax",
            factor=1.0 if shared else factor,
            shared=factor if shared else None,
        )
        extra = torch.full((tokens, shared), experts, dtype=torch.int32)
        return {"shares": shares, "experts": Exact(torch.cat([table, extra], -1))}

    return Call(run, expected)


@cases(
    "hash_topk_cpu", kind=["experts", "count", "function", "rows", "columns", "mismatch", "int64", "strided", "float64"]
)
def hash_topk_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Other numbers of experts, unknown functions, and tables that do not fit."""
    experts, count = 65 if kind == "experts" else 64, 5 if kind == "count" else 6
    logits = draw.normal((4, experts), torch.float64 if kind == "float64" else torch.float32)
    logits = draw.strided(logits) if kind == "strided" else logits
    shape = (4 + (kind == "rows"), count + (kind == "columns"))
    table = draw.integers(shape, 0, experts, torch.int64 if kind == "int64" else torch.int32)
    function = "tanh" if kind == "function" else "sigmoid"
    total = experts + (kind == "mismatch")
    return refused(lambda: library.hash_topk_cpu(logits, table, count, function, 0, total, 1.0))
