"""Activations of one input, and those whose second half is a gate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Near
from oracles import activations

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# Kernels take eight elements at a time and refuse other widths; 0 rows are allowed. 11008 and 14336 are Llama's.
SHAPES = [(0, 16), (1, 8), (1, 16), (3, 24), (7, 40), (17, 264), (2, 1000), (3, 11008), (1, 14336)]
PLAIN: dict[str, Callable[[torch.Tensor], Near]] = {
    "gelu_new": activations.gelu_tanh,
    "gelu_fast": activations.gelu_tanh,
    "gelu_tanh": activations.gelu_tanh,
    "gelu_quick": activations.gelu_quick,
}
GATED: dict[str, Callable[[torch.Tensor], Near]] = {
    "silu_and_mul": activations.silu,
    "gelu_and_mul": activations.gelu,
    "gelu_tanh_and_mul": activations.gelu_tanh,
}


def _define(name: str, *, is_gated: bool) -> None:
    """Register the cases of one activation."""
    width = 2 if is_gated else 1

    def expected(x: torch.Tensor) -> Near:
        if not is_gated:
            return PLAIN[name](x.double())
        first, second = x.double().chunk(2, dim=-1)
        return activations.gated(GATED[name](first), second)

    def call(library: Any, draw: Draw, x: torch.Tensor) -> Call:
        out = draw.output((*x.shape[:-1], x.shape[-1] // width), x.dtype)

        def run() -> dict[str, torch.Tensor]:
            getattr(library, name)(out, x)
            return {"out": out}

        return Call(run, lambda: {"out": expected(x)})

    def random(library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, ...], scale: float) -> Call:
        return call(library, draw, draw.normal((*shape[:-1], shape[-1] * width), dtype, scale))

    def extreme(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
        return call(library, draw, draw.extremes((4, 80 * width), dtype))

    def special(library: Any, draw: Draw, *, dtype: torch.dtype, value: float) -> Call:
        x = draw.normal((3, 40 * width), dtype)
        x[0, 0], x[1, 40 * width - 1], x[2, 17] = value, value, value
        return call(library, draw, x)

    def odd(library: Any, draw: Draw, *, size: int) -> Call:
        x, out = draw.normal((2, size * width)), draw.output((2, size), torch.float32)
        return refused(lambda: getattr(library, name)(out, x))

    for function, parameters in (
        (random, {"dtype": DTYPES, "shape": SHAPES, "scale": [1.0, 12.0]}),
        (extreme, {"dtype": DTYPES}),
        (special, {"dtype": DTYPES, "value": [math.nan, math.inf, -math.inf]}),
        (odd, {"size": [1, 15, 17, 33]}),
    ):
        function.__name__ = name if function is random else f"{name}_{function.__name__}"
        cases(name, **parameters)(function)


for _name in PLAIN:
    _define(_name, is_gated=False)
for _name in GATED:
    _define(_name, is_gated=True)


@cases("activation_lut_bf16", shape=[(65536,), (0, 16), (1, 1), (3, 17), (2, 3, 5)])
def activation_lut_bf16(library: Any, draw: Draw, *, shape: tuple[int, ...]) -> Call:
    """GELU of bfloat16 from a table; the largest shape has all numbers whose double is finite in float32, and NaN."""
    count = torch.Size(shape).numel()
    codes = torch.arange(count) if count == 2**16 else draw.integers([count], 0, 2**16)
    x = codes.to(torch.int16).view(torch.bfloat16).reshape(shape)
    # torch's own formula decides what becomes of the others.
    x = torch.where(x.abs() >= 2.0**127, 1.0, x)
    out = draw.output(shape, torch.bfloat16)

    def run() -> dict[str, torch.Tensor]:
        library.activation_lut_bf16(out, x, "gelu")
        return {"out": out}

    return Call(run, lambda: {"out": activations.gelu(x.double())})


@cases("activation_lut_bf16", wrong=["float32", "float16_out", "strided", "strided_out", "silu"])
def activation_lut_bf16_refused(library: Any, draw: Draw, *, wrong: str) -> Call:
    """Other formats, layouts, and activations."""
    x = draw.normal((4, 16), torch.float32 if wrong == "float32" else torch.bfloat16)
    out = draw.output((4, 16), torch.float16 if wrong == "float16_out" else torch.bfloat16)
    x, out = draw.strided(x) if wrong == "strided" else x, draw.strided(out) if wrong == "strided_out" else out
    return refused(lambda: library.activation_lut_bf16(out, x, "silu" if wrong == "silu" else "gelu"))
