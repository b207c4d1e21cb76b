"""Experts with 8-bit integer weights by Arm's and Power's matrix instructions."""

from __future__ import annotations

from typing import Any

import torch

from cases.moe import ARM, DEEP, DTYPES, biases, routes
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Expected, Judged
from oracles import moe, moe_quantised

ISA = "neon" if ARM else "vsx"
EXPERTS, PACK = "cpu_fused_moe_int8", "prepack_moe_weight_int8"
# Tokens, experts, experts of a token: 8 tokens of an expert are one block, and a token alone has a kernel of its own.
ROUTES = [(0, 4, 2), (1, 1, 1), (5, 4, 3), (17, 8, 2), (37, 2, 1), (3, 8, 6)]
# Hidden and inner size; outputs are multiples of 32.
WIDTHS = [(32, 32), (96, 160), (256, 64)]


def _layer(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    act: str,
    biased: bool,
    route: tuple[int, int, int],
    widths: tuple[int, int],
    scale: float = 1.0,
    skip: bool = False,
) -> Call:
    hidden, inner = widths
    chosen, shares = routes(draw, *route)
    x = draw.normal((route[0], hidden), dtype, scale)
    # A token that has no scale.
    x[1::7] = 0
    shapes = [(route[1], 2 * inner, hidden), (route[1], hidden, inner)]
    codes = [draw.integers(shape, -128, 128, torch.int8) for shape in shapes]
    scales = [draw.uniform(shape[:2], 0.5, 1.5) / (73 * shape[2] ** 0.5) for shape in shapes]
    added = biases(draw, route[1], widths, dtype) if biased else (None, None)
    packed = [draw.output(shape, torch.int8) for shape in shapes]
    out = draw.output(x.shape, dtype)

    def run() -> dict[str, torch.Tensor]:
        for part, room in zip(codes, packed, strict=True):
            library.prepack_moe_weight_int8(part, room, ISA)
        library.cpu_fused_moe_int8(out, x, *packed, *scales, *added, shares, chosen, skip, act, ISA)
        return {"out": out}

    def expected() -> dict[str, Expected]:
        decoded = [moe_quantised.channels(*pair) for pair in zip(codes, scales, strict=True)]
        experts = moe.Experts(*decoded, *(None if part is None else part.double() for part in added))
        share = torch.ones_like(shares) if skip else shares
        inputs, step = moe_quantised.rows_int8(x.double()), moe_quantised.int8_step
        rounded = ("hidden",) if dtype == torch.bfloat16 else ()
        return {"out": moe.mixture(inputs, experts, chosen, share.double(), moe.GATES[act], rounded, step)}

    return Call(run, expected)


@cases(
    EXPERTS, PACK, deep=DEEP, dtype=DTYPES, act=["silu", "swigluoai"], biased=[False, True], route=ROUTES, widths=WIDTHS
)
def cpu_fused_moe_int8(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Inputs of both products become 8-bit integers; each output of the weights has a scale."""
    return _layer(library, draw, **parameters)


@cases(EXPERTS, PACK, dtype=DTYPES, act=list(moe.GATES), scale=[0.05, 1.0, 30.0])
def cpu_fused_moe_int8_activation(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Every activation, where it is straight, bent, and saturated."""
    return _layer(library, draw, biased=False, route=(9, 4, 2), widths=(64, 96), **parameters)


@cases(EXPERTS, PACK, dtype=DTYPES, tokens=[1, 9])
def cpu_fused_moe_int8_unweighted(library: Any, draw: Draw, *, dtype: torch.dtype, tokens: int) -> Call:
    """A token's only expert may count fully, whatever its share."""
    return _layer(library, draw, dtype=dtype, act="silu", biased=True, route=(tokens, 2, 1), widths=(32, 64), skip=True)


@cases(PACK, shape=[(1, 32, 8), (2, 32, 16), (3, 64, 32), (2, 96, 160)])
def prepack_moe_weight_int8(library: Any, draw: Draw, *, shape: tuple[int, int, int]) -> Call:
    """Packing keeps each weight within its expert; the rest is the library's affair."""
    weight = draw.integers(shape, -128, 128, torch.int8)
    packed = draw.output(shape, torch.int8)

    def run() -> dict[str, torch.Tensor]:
        library.prepack_moe_weight_int8(weight, packed, ISA)
        return {"packed": packed}

    def judge(got: torch.Tensor) -> str:
        one, other = (part.reshape(shape[0], -1).sort(-1).values for part in (got, weight))
        return "" if torch.equal(one, other) else "the packed weights are not those of the expert"

    return Call(run, lambda: {"packed": Judged(judge)})


@cases(PACK, kind=["isa", "vec", "outputs", "inputs", "dtype", "strided"])
def prepack_moe_weight_int8_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Outputs are multiples of 32, inputs of 8, weights contiguous integers of 8 bits."""
    shape = (2, 48 if kind == "outputs" else 32, 36 if kind == "inputs" else 32)
    weight = draw.integers(shape, -128, 128, torch.int16 if kind == "dtype" else torch.int8)
    weight = draw.strided(weight) if kind == "strided" else weight
    packed = draw.output(shape, torch.int8)
    isa = {"isa": "sse", "vec": "vec"}.get(kind, ISA)
    return refused(lambda: library.prepack_moe_weight_int8(weight, packed, isa))


@cases(EXPERTS, kind=["act", "isa", "vec", "two_unweighted", "strided", "outputs", "inner", "dtype"])
def cpu_fused_moe_int8_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Unknown names, sizes that do not fit, and shares that cannot be left out because they are two."""
    dtype = torch.float64 if kind == "dtype" else torch.bfloat16
    hidden, inner = 32, 16 if kind == "outputs" else 32
    shapes = (2, 2 * inner, hidden), (2, hidden, 2 * inner if kind == "inner" else inner)
    codes = [draw.integers(shape, -128, 128, torch.int8) for shape in shapes]
    scales = [torch.ones(shape[:2]) for shape in shapes]
    x, (chosen, shares) = draw.normal((3, hidden), dtype), routes(draw, 3, 2, 2)
    x = draw.strided(x) if kind == "strided" else x
    names = ("relu" if kind == "act" else "silu", {"isa": "sse", "vec": "vec"}.get(kind, ISA))
    arguments = (draw.output((3, hidden), dtype), x, *codes, *scales, None, None, shares, chosen)
    return refused(lambda: library.cpu_fused_moe_int8(*arguments, kind == "two_unweighted", *names))
