"""Quantisation to 8-bit floating point where only one result is right: between two numbers, and beyond the range."""

from __future__ import annotations

from typing import Any

import torch

from cases.fp8_quantisation import DTYPES, FORMATS, ROWS, STATIC, TAKES
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact
from oracles import fp8_quantisation as oracle


@cases(STATIC, takes=TAKES, dtype=DTYPES, out=FORMATS, scale=[1.0, 0.25])
def static_scaled_fp8_quant_ties(
    library: Any, draw: Draw, *, dtype: torch.dtype, out: torch.dtype, scale: float
) -> Call:
    """What lies between two numbers of the format becomes the one with the even code (IEEE 754, 4.3.1)."""
    x, even = (part[None] for part in oracle.exact_ties(out, dtype, scale))
    got = draw.output(x.shape, out)

    def run() -> dict[str, torch.Tensor]:
        library.static_scaled_fp8_quant(got, draw.guarded(x), torch.tensor([scale]), None)
        return {"out": got}

    return Call(run, lambda: {"out": Exact(even)})


@cases(ROWS, takes=TAKES, dtype=DTYPES, out=FORMATS, scale=[1.0, 0.25])
def dynamic_per_token_scaled_fp8_quant_ties(
    library: Any, draw: Draw, *, dtype: torch.dtype, out: torch.dtype, scale: float
) -> Call:
    """As without scales of rows: the largest number of the format gives the row a scale that is a power of two."""
    x, even = (part[None] for part in oracle.exact_ties(out, dtype, scale))
    largest = torch.tensor([[oracle.LARGEST[out]]])
    x, even = torch.cat([(largest * scale).to(dtype), x], 1), torch.cat([largest.to(out), even], 1)
    got, scales = draw.output(x.shape, out), draw.output((1, 1), torch.float32)

    def run() -> dict[str, torch.Tensor]:
        library.dynamic_per_token_scaled_fp8_quant(got, draw.guarded(x), scales, None)
        return {"out": got, "scales": scales}

    return Call(run, lambda: {"out": Exact(even), "scales": Exact(torch.tensor([[scale]]))})


@cases(STATIC, ROWS, takes=TAKES, dtype=DTYPES, out=FORMATS)
def scaled_fp8_quant_saturated(library: Any, draw: Draw, *, dtype: torch.dtype, out: torch.dtype) -> Call:
    """What is beyond the format's range, and infinity, becomes its largest number of that sign."""
    sign = draw.normal((3, 37)).sign()
    beyond = torch.tensor([1.25, 2.0, torch.inf])[draw.integers(sign.shape, 0, 3)] * sign
    got = {name: draw.output(sign.shape, out) for name in ("static", "rows")}

    def run() -> dict[str, torch.Tensor]:
        largest, bound = oracle.LARGEST[out], torch.tensor([2.0])
        library.static_scaled_fp8_quant(got["static"], (beyond * largest / 2).to(dtype), torch.tensor([0.5]), None)
        scales = torch.empty(len(sign), 1)
        library.dynamic_per_token_scaled_fp8_quant(got["rows"], (beyond * bound).to(dtype), scales, bound)
        return got

    return Call(run, lambda: dict.fromkeys(got, Exact((sign * oracle.LARGEST[out]).to(out))))
