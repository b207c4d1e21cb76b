"""Packed experts with the activations that only later versions have, where weights are quantised or not."""

from __future__ import annotations

from typing import Any

import torch

from cases import moe_experts, moe_quantised
from cases.moe import routes, weights
from cases.moe_experts import GELUS, METHODS, Layer
from harness.case import Call, cases, refused
from harness.draw import Draw

BOTH = {"takes": ["act_method"], "route": [(3, 3, 2), (17, 3, 2)]}
"""Few and many tokens of an expert, for which there are different kernels."""
OPERATORS = ("fused_experts_cpu", "convert_weight_packed")


@cases(
    *OPERATORS,
    **BOTH,
    dtype=[torch.bfloat16],
    biased=[False, True],
    widths=[(64, 192), (256, 64)],
    scale=[0.05, 1.0, 30.0],
)
def fused_experts_gelu(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Weights in bfloat16: where the activation is straight, bent, and saturated."""
    return moe_experts.bfloat16(library, draw, gate="gelu", **parameters)


@cases(*OPERATORS, **BOTH, dtype=[torch.bfloat16])
def fused_experts_gelu_tanh(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Weights in bfloat16, and the other formula for GELU."""
    return moe_experts.bfloat16(library, draw, gate="gelu_tanh", biased=False, widths=(64, 192), **parameters)


@cases(*OPERATORS, **BOTH, gate=list(GELUS), biased=[False, True], widths=[(160, 96)], outputs=[32, 128])
def fused_experts_fp8_gelu(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Weights in 8-bit floating point."""
    return moe_quantised.fused_experts_fp8(library, draw, **parameters)


@cases(*OPERATORS, "convert_scale_packed", **BOTH, gate=list(GELUS), biased=[False, True], widths=[(160, 96)])
def fused_experts_mxfp4_gelu(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Weights in 4-bit floating point."""
    return moe_quantised.fused_experts_mxfp4(library, draw, **parameters)


@cases(*OPERATORS, **BOTH, dtype=[torch.bfloat16], widths=[(64, 96), (160, 96)])
def fused_experts_int8_gelu_tanh(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Weights of 8-bit integers, for which there is only the formula with tanh."""
    return moe_quantised.int8(library, draw, gate="gelu_tanh", **parameters)


@cases("fused_experts_cpu", takes=["act_method"], method=[-1, 4, METHODS["clamped"]])
def fused_experts_unknown_activation(library: Any, draw: Draw, *, method: int) -> Call:
    """Numbers that stand for no activation, and the clamped one without its limit."""
    x, (chosen, shares) = draw.normal((3, 64), torch.bfloat16), routes(draw, 3, 2, 2)
    up, down = weights(draw, 2, (64, 32), torch.bfloat16)
    out, nothing = draw.output((3, 64), torch.bfloat16), (None,) * 10
    arguments = (out, x, up, down, shares, chosen, moe_experts.BF16, *nothing, False, method)
    return refused(lambda: library.fused_experts_cpu(*arguments))


@cases(*OPERATORS, takes=["act_method"], gate=["gelu", "clamped"])
def fused_experts_int8_activations_refused(library: Any, draw: Draw, *, gate: str) -> Call:
    """Weights of integers are computed with SiLU and the formula with tanh only."""
    codes = [draw.integers(shape, -128, 128, torch.int8) for shape in ((2, 64, 64), (2, 64, 32))]
    layer = Layer(moe_experts.INT8_W8A8, *map(library.convert_weight_packed, codes), scales=_ones(codes), gate=gate)
    x, (chosen, shares) = draw.normal((3, 64), torch.bfloat16), routes(draw, 3, 2, 2)
    out = draw.output((3, 64), torch.bfloat16)
    return refused(lambda: layer.run(library, out, x, shares, chosen))


def _ones(codes: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = (torch.ones(part.shape[:2]) for part in codes)
    return first, second
