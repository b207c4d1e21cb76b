"""Calls that products of oneDNN and what quantises for them take and get wrong; docs/findings.md has headings."""

from __future__ import annotations

from typing import Any

import torch

from cases.onednn import PLAIN, SCALED, released
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact
from harness.ranks import run_ranks, shared

CACHED = 128


@cases(*SCALED)
def onednn_scaled_mm_no_rows(library: Any, draw: Draw) -> Call:
    """An input without rows, with one scale for all: there is nothing to write."""
    weight, out = draw.integers([16, 16], -9, 9, torch.int8).t(), draw.output((0, 16), torch.bfloat16)
    scale, x = torch.ones(1, 1), torch.empty(0, 16, dtype=torch.int8)

    def run() -> dict[str, torch.Tensor]:
        made = library.create_onednn_scaled_mm_handler(weight, scale, torch.bfloat16, False, False, CACHED)
        with released(library, made) as handler:
            library.onednn_scaled_mm(out, x, scale, None, None, None, handler)
        return {"out": out}

    return Call(run, lambda: {"out": Exact(torch.empty(0, 16, dtype=torch.bfloat16))})


@cases(*PLAIN)
def onednn_mm_output_apart(library: Any, draw: Draw) -> Call:
    """Rows of the output that lie apart, which the operator does not refuse."""
    weight, x = (draw.integers(shape, 0, 4).float() for shape in ([8, 16], [3, 8]))
    out = draw.strided(torch.zeros(3, 16))

    def run() -> dict[str, torch.Tensor]:
        with released(library, library.create_onednn_mm_handler(weight, CACHED)) as handler:
            library.onednn_mm(out, x, None, handler)
        return {"out": out}

    return Call(run, lambda: {"out": Exact(x @ weight)})


@cases("dynamic_scaled_int8_quant", with_zero_point=[False, True])
def dynamic_scaled_int8_quant_no_columns(library: Any, draw: Draw, *, with_zero_point: bool) -> Call:
    """Rows without elements, in a process of its own: it may be the end of it."""
    x, out = torch.empty(4, 0), shared(draw.output((4, 0), torch.int8))
    zero_points = torch.empty(4, 1, dtype=torch.int32) if with_zero_point else None

    def run() -> dict[str, torch.Tensor]:
        run_ranks(library, [lambda: library.dynamic_scaled_int8_quant(out, x, torch.empty(4, 1), zero_points)])
        return {"out": out}

    return Call(run, lambda: {"out": Exact(torch.empty(4, 0, dtype=torch.int8))})


@cases("dynamic_scaled_int8_quant", value=[3.0, -0.5])
def dynamic_scaled_int8_quant_constant(library: Any, draw: Draw, *, value: float) -> Call:
    """Rows of one number, with zero points: what is stored stands for that number, to a hundredth of it."""
    x, out = torch.full((2, 32), value), draw.output((2, 32), torch.int8)
    scale, zero_point = draw.output((2, 1), torch.float32), draw.output((2, 1), torch.int32)

    def run() -> dict[str, torch.Tensor]:
        library.dynamic_scaled_int8_quant(out, x, scale, zero_point)
        stands_for = (out.double() - zero_point) * scale
        return {"near": (stands_for - value).abs() < abs(value) / 100}

    return Call(run, lambda: {"near": Exact(torch.ones(2, 32, dtype=torch.bool))})
