"""Experts with weights and tokens of 8-bit floating-point numbers."""

from __future__ import annotations

from typing import Any

import torch

from cases import moe_experts, moe_quantised
from cases.moe import routes
from cases.moe_experts import GELUS, Layer
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Expected
from oracles import moe
from oracles import moe_quantised as decoding

OPERATORS = ("fused_experts_cpu", "convert_weight_packed", "float8_linear_prepack_cpu")


@cases(
    *OPERATORS, takes=["a1_scale"], route=[(1, 2, 1), (5, 4, 2), (9, 2, 1), (35, 1, 1)], widths=[(128, 32), (256, 160)]
)
def fused_experts_fp8_inputs(
    library: Any, draw: Draw, *, route: tuple[int, int, int], widths: tuple[int, int], gate: str = "silu"
) -> Call:
    """Tokens are 8-bit floating-point numbers, too; 128 inputs of an output share a scale, or a block of 128 x 128."""
    tokens, experts, _ = route
    shapes = moe_quantised.shapes_of(experts, widths)
    codes = [moe_quantised.eights(draw, shape) for shape in shapes]
    rows = moe_quantised.scales_for(draw, (experts, 2 * widths[1], widths[0] // 128), widths[0], 64.0)
    tiles = moe_quantised.scales_for(draw, (experts, widths[0] // 128, -(-widths[1] // 128)), widths[1], 64.0)
    packed = [library.float8_linear_prepack_cpu(*pair) for pair in zip(codes[0], rows, strict=True)]
    chosen, shares = routes(draw, *route)
    x, scale = moe_quantised.eights(draw, (tokens, widths[0]), 16.0), draw.uniform([tokens], 0.5, 1.5) / 16
    layer = Layer(
        moe_experts.FP8_W8A8,
        torch.stack([weight for weight, _ in packed]),
        library.convert_weight_packed(codes[1]),
        scales=(torch.stack([scales for _, scales in packed]), tiles),
        input_scale=scale,
        block=(128, 128),
        gate=gate,
    )

    def expected() -> Expected:
        decoded = decoding.blocks(codes[0], rows, (1, 128)), decoding.blocks(codes[1], tiles, (128, 128))
        inputs = x.double() * scale.double()[:, None]
        rounded = ("terms", *moe_quantised.STORED)
        return moe.mixture(inputs, moe.Experts(*decoded), chosen, shares.double(), moe.GATES[gate], rounded)

    return moe_experts.call(library, draw, layer, x, (chosen, shares), expected)


@cases(*OPERATORS, takes=["act_method"], gate=list(GELUS), route=[(1, 2, 1), (9, 2, 1)])
def fused_experts_fp8_inputs_gelu(library: Any, draw: Draw, *, gate: str, route: tuple[int, int, int]) -> Call:
    """Tokens and weights in 8-bit floating point."""
    return fused_experts_fp8_inputs(library, draw, route=route, widths=(256, 160), gate=gate)
