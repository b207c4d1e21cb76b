"""Experts with unquantised weights: grouped products with vectors or matrix instructions, as the library has them."""

from __future__ import annotations

import platform
from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Expected, Judged
from oracles import moe

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
ARM = platform.machine() == "aarch64"
# Matrix instructions take bfloat16 only; "vec" is everywhere.
ISAS = ["vec"] + ["amx"] * torch.cpu._is_amx_tile_supported() + ["neon"] * ARM
# Tokens, experts, and how many experts a token has. Vectors take 8 tokens of an expert at a time, AMX 32.
ROUTES = [(0, 4, 2), (1, 1, 1), (5, 4, 3), (17, 8, 2), (70, 2, 1)]
# Hidden and inner size; both are multiples of 32.
WIDTHS = [(32, 32), (96, 160), (256, 64)]
DEEP = {
    "route": lambda st: st.tuples(st.integers(1, 80), st.integers(3, 12), st.integers(1, 3)),
    "widths": lambda st: st.tuples(*[st.integers(1, 10).map(lambda count: 32 * count)] * 2),
}


def routes(draw: Draw, tokens: int, experts: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each token's experts, int32, and their shares, float32."""
    chosen = draw.uniform((tokens, experts), 0, 1).argsort(-1)[:, :count]
    return chosen.int().contiguous(), draw.uniform((tokens, count), 0.1, 1)


def weights(draw: Draw, experts: int, widths: tuple[int, int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weights that keep the size of what they are multiplied with."""
    hidden, inner = widths
    return (
        draw.normal((experts, 2 * inner, hidden), dtype, hidden**-0.5),
        draw.normal((experts, hidden, inner), dtype, inner**-0.5),
    )


def biases(draw: Draw, experts: int, widths: tuple[int, int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return biases as large as what they are added to."""
    return draw.normal((experts, 2 * widths[1]), dtype), draw.normal((experts, widths[0]), dtype)


def rounded(dtype: torch.dtype) -> tuple[str, ...]:
    """Return what counts: sums are float32, and what the activation gives is stored."""
    return ("terms", "units", "hidden", "product", "share") if dtype == torch.float32 else ("hidden",)


def _layer(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    isa: str,
    act: str,
    biased: bool,
    route: tuple[int, int, int],
    widths: tuple[int, int],
    scale: float = 1.0,
    skip: bool = False,
) -> Call:
    chosen, shares = routes(draw, *route)
    x = draw.normal((route[0], widths[0]), dtype, scale)
    up, down = weights(draw, route[1], widths, dtype)
    up_bias, down_bias = biases(draw, route[1], widths, dtype) if biased else (None, None)
    packed = [draw.output(part.shape, dtype) for part in (up, down)]
    out = draw.output(x.shape, dtype)

    def run() -> dict[str, torch.Tensor]:
        for part, room in zip((up, down), packed, strict=True):
            library.prepack_moe_weight(part, room, isa)
        library.cpu_fused_moe(out, x, *packed, up_bias, down_bias, shares, chosen, skip, act, isa)
        return {"out": out}

    def expected() -> dict[str, Expected]:
        parts = (None if part is None else part.double() for part in (up, down, up_bias, down_bias))
        share = torch.ones_like(shares) if skip else shares
        found = moe.mixture(x.double(), moe.Experts(*parts), chosen, share.double(), moe.GATES[act], rounded(dtype))
        return {"out": found}

    return Call(run, expected)


def _has(dtype: torch.dtype, isa: str, **_: Any) -> bool:
    return isa == "vec" or dtype == torch.bfloat16


@cases(
    "cpu_fused_moe",
    "prepack_moe_weight",
    deep=DEEP,
    dtype=DTYPES,
    isa=ISAS,
    act=["silu", "swigluoai"],
    biased=[False, True],
    route=ROUTES,
    widths=WIDTHS,
    where=_has,
)
def cpu_fused_moe(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Numbers of tokens and sizes; experts without a token, too."""
    return _layer(library, draw, **parameters)


@cases(
    "cpu_fused_moe",
    "prepack_moe_weight",
    dtype=DTYPES,
    isa=ISAS,
    act=list(moe.GATES),
    # Where activations are straight, bent, and saturated.
    scale=[0.05, 1.0, 30.0],
    where=_has,
)
def cpu_fused_moe_activation(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Every activation, over its range."""
    return _layer(library, draw, biased=False, route=(9, 4, 2), widths=(64, 96), **parameters)


@cases("cpu_fused_moe", "prepack_moe_weight", dtype=DTYPES, isa=ISAS, tokens=[1, 9], where=_has)
def cpu_fused_moe_unweighted(library: Any, draw: Draw, *, tokens: int, **parameters: Any) -> Call:
    """A token's only expert may count fully, whatever its share."""
    return _layer(
        library, draw, act="silu", biased=True, route=(tokens, 2, 1), widths=(32, 64), skip=True, **parameters
    )


@cases(
    "prepack_moe_weight",
    dtype=DTYPES,
    isa=ISAS,
    shape=[(1, 32, 1), (2, 32, 17), (3, 64, 32), (2, 96, 160)],
    where=lambda dtype, isa, shape: _has(dtype, isa) and (isa == "vec" or shape[2] % 32 == 0),
)
def prepack_moe_weight(library: Any, draw: Draw, *, dtype: torch.dtype, isa: str, shape: tuple[int, int, int]) -> Call:
    """Packing keeps each weight within its expert and its group of outputs; the rest is the library's affair."""
    weight = draw.normal(shape, dtype)
    packed = draw.output(shape, dtype)

    def run() -> dict[str, torch.Tensor]:
        library.prepack_moe_weight(weight, packed, isa)
        return {"packed": packed}

    def judge(got: torch.Tensor) -> str:
        one, other = (part.reshape(shape[0], -1).double().sort(-1).values for part in (got, weight))
        return "" if torch.equal(one, other) else "the packed weights are not those of the expert"

    return Call(run, lambda: {"packed": Judged(judge)})


@cases("prepack_moe_weight", kind=["isa", "outputs", "dtype", "strided", "neon", "rvv"])
def prepack_moe_weight_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Outputs are multiples of 32, weights contiguous; other architectures' instructions are refused."""
    dtype = torch.float64 if kind == "dtype" else torch.float32
    weight = draw.normal((2, 48 if kind == "outputs" else 32, 32), dtype)
    if kind == "strided":
        weight = draw.strided(weight)
    packed = draw.output(weight.shape, dtype)
    isa = {"isa": "sse", "neon": "rvv" if ARM else "neon", "rvv": "rvv"}.get(kind, "vec")
    return refused(lambda: library.prepack_moe_weight(weight, packed, isa))


@cases("cpu_fused_moe", kind=["act", "isa", "two_unweighted", "strided", "outputs", "inner", "dtype"])
def cpu_fused_moe_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Unknown names, sizes that do not fit, and shares that cannot be left out because they are two."""
    dtype = torch.float64 if kind == "dtype" else torch.float32
    hidden, inner = 32, 16 if kind == "outputs" else 32
    up, down = weights(draw, 2, (hidden, inner), dtype)
    if kind == "inner":
        down = draw.normal((2, hidden, 2 * inner), dtype)
    x = draw.normal((3, hidden), dtype)
    x = draw.strided(x) if kind == "strided" else x
    chosen, shares = routes(draw, 3, 2, 2)
    out = draw.output((3, hidden), dtype)
    names = ("relu" if kind == "act" else "silu", "sse" if kind == "isa" else "vec")
    arguments = (out, x, up, down, None, None, shares, chosen, kind == "two_unweighted", *names)
    return refused(lambda: library.cpu_fused_moe(*arguments))
