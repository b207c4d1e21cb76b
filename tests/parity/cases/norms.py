"""RMS norm, alone and with the sum of the residual."""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Near
from oracles import norms

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# Kernels take eight elements at a time. 128 is a head, 4096 Llama 3 8B, 5120 Qwen 3 32B, 7168 DeepSeek V3.
SHAPES = [(0, 16), (1, 8), (1, 16), (3, 24), (7, 40), (33, 128), (5, 1000), (2, 4096), (17, 5120), (1, 7168)]


@cases("rms_norm", dtype=DTYPES, shape=SHAPES, weighted=[True, False], scale=[1.0, 1e-3, 100.0])
def rms_norm(
    library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int], weighted: bool, scale: float
) -> Call:
    """Rows of ordinary, small (where epsilon counts) and large values."""
    x = draw.normal(shape, dtype, scale)
    weight = draw.normal(shape[1:], dtype) if weighted else None
    out = draw.output(shape, dtype)

    def run() -> dict[str, torch.Tensor]:
        library.rms_norm(out, x, weight, 1e-6)
        return {"out": out}

    return Call(run, lambda: {"out": norms.rms_norm(x.double(), None if weight is None else weight.double(), 1e-6)})


@cases("rms_norm", dtype=DTYPES, value=[math.nan, math.inf])
def rms_norm_special(library: Any, draw: Draw, *, dtype: torch.dtype, value: float) -> Call:
    """What is not a number, or infinite, stays in its row."""
    x, weight, out = draw.normal((4, 40), dtype), draw.normal([40], dtype), draw.output((4, 40), dtype)
    x[1, 39], x[3, 0] = value, value

    def run() -> dict[str, torch.Tensor]:
        library.rms_norm(out, x, weight, 1e-6)
        return {"out": out}

    return Call(run, lambda: {"out": norms.rms_norm(x.double(), weight.double(), 1e-6)})


@cases("rms_norm", size=[1, 15, 17, 33])
def rms_norm_odd(library: Any, draw: Draw, *, size: int) -> Call:
    """Widths that are no multiple of the vector are refused."""
    x, out = draw.normal((2, size)), draw.output((2, size), torch.float32)
    return refused(lambda: library.rms_norm(out, x, None, 1e-6))


@cases("fused_add_rms_norm", dtype=DTYPES, shape=SHAPES, weighted=[True, False])
def fused_add_rms_norm(library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int], weighted: bool) -> Call:
    """The residual becomes the sum, the input its norm."""
    x, residual = draw.guarded(draw.normal(shape, dtype)), draw.guarded(draw.normal(shape, dtype))
    return _fused(library, x, residual, draw.normal(shape[1:], dtype) if weighted else None)


@cases("fused_add_rms_norm", dtype=DTYPES, value=[math.nan, math.inf])
def fused_add_rms_norm_special(library: Any, draw: Draw, *, dtype: torch.dtype, value: float) -> Call:
    """What is not a number, or infinite, stays in its row, whether it comes from the input or from the residual."""
    x, residual = draw.guarded(draw.normal((4, 40), dtype)), draw.guarded(draw.normal((4, 40), dtype))
    x[1, 39], residual[2, 0] = value, value
    return _fused(library, x, residual, draw.normal([40], dtype))


def _fused(library: Any, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None) -> Call:
    def run() -> dict[str, torch.Tensor]:
        library.fused_add_rms_norm(x, residual, weight, 1e-5)
        return {"input": x, "residual": residual}

    def expected() -> dict[str, Near]:
        total = x.double() + residual.double()
        norm = norms.rms_norm(total, None if weight is None else weight.double(), 1e-5)
        return {"input": norm, "residual": Near(total)}

    return Call(run, expected)
