"""Calls that packed experts take and get wrong; docs/findings.md has one heading for each."""

from __future__ import annotations

from typing import Any

import torch

from cases.moe import routes
from cases.moe_experts import BF16, FP8_W8A16, INT8_W8A8, MXFP4, Layer, call
from harness.case import Call, cases, refusal
from harness.draw import Draw
from harness.expected import Exact, Expected
from harness.ranks import run_ranks, shared
from oracles import moe

E4M3 = torch.float8_e4m3fn
SIZE = 32
ONES = (torch.ones(1, 1, 1), torch.ones(1, 1, 1))
BLOCK = (128, 128)


def _one_expert(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the routes of tokens that all have the one expert that there is."""
    return torch.zeros(tokens, 1, dtype=torch.int32), torch.ones(tokens, 1)


@cases("fused_experts_cpu", "convert_weight_packed")
def fused_experts_bias_few(library: Any, draw: Draw) -> Call:
    """Biases of experts with SiLU and up to four tokens of an expert."""
    x, chosen, shares = draw.normal((3, SIZE), torch.bfloat16), *routes(draw, 3, 2, 1)
    up, down = draw.normal((2, 2 * SIZE, SIZE), torch.bfloat16, 0.2), draw.normal((2, SIZE, SIZE), torch.bfloat16, 0.2)
    both = draw.normal((2, 2 * SIZE)), draw.normal((2, SIZE))
    layer = Layer(BF16, library.convert_weight_packed(up), library.convert_weight_packed(down), biases=both)

    def expected() -> Expected:
        experts = moe.Experts(*(part.double() for part in (up, down, *both)))
        return moe.mixture(x.double(), experts, chosen, shares.double(), moe.GATES["silu"], ("hidden", "share"))

    return call(library, draw, layer, x, (chosen, shares), expected)


@cases("fused_experts_cpu", "convert_weight_packed", code=[0, 1, 7], tokens=[1, 6])
def fused_experts_fp8_small_weights(library: Any, draw: Draw, *, code: int, tokens: int) -> Call:
    """Gates are 1, and linear units have weights that are zero or subnormal in E4M3; all products are exact."""
    up = torch.full((1, 2 * SIZE, SIZE), 0x38, dtype=torch.uint8)
    up[:, :SIZE], up[:, SIZE:] = 0x50, code
    down = torch.full((1, SIZE, SIZE), 0x38, dtype=torch.uint8)
    packed = [library.convert_weight_packed(each.view(E4M3)) for each in (up, down)]
    x = torch.ones(tokens, SIZE, dtype=torch.bfloat16)
    # SiLU of 32 * 8 is 256 to all bits.
    wanted = torch.full((tokens, SIZE), 256.0 * SIZE * SIZE * code * 2**-9, dtype=torch.bfloat16)
    layer = Layer(FP8_W8A16, *packed, scales=ONES, block=BLOCK)
    return call(library, draw, layer, x, _one_expert(tokens), lambda: Exact(wanted))


@cases("fused_experts_cpu", "convert_weight_packed", "convert_scale_packed")
def fused_experts_mxfp4_least_scale(library: Any, draw: Draw) -> Call:
    """Linear units have weights of 2^-128, with the least scale of E8M0, which may be taken for zero."""
    up = torch.full((1, 2 * SIZE, SIZE // 2), 0x11, dtype=torch.uint8)
    down = torch.full((1, SIZE, SIZE // 2), 0x22, dtype=torch.uint8)
    scales = [torch.full((1, each.shape[1], 1), 127, dtype=torch.uint8) for each in (up, down)]
    scales[0][:, SIZE:] = 0
    packed = [library.convert_weight_packed(each) for each in (up, down)]
    layer = Layer(MXFP4, *packed, scales=tuple(library.convert_scale_packed(each) for each in scales))
    x, out = torch.ones(1, SIZE, dtype=torch.bfloat16), draw.output((1, SIZE), torch.bfloat16)
    chosen, shares = _one_expert(1)

    def run() -> dict[str, torch.Tensor]:
        layer.run(library, out, x, shares, chosen)
        return {"small": out.abs() < 2.0**-100}

    return Call(run, lambda: {"small": Exact(torch.ones(1, SIZE, dtype=torch.bool))})


@cases("fused_experts_cpu", "convert_weight_packed")
def fused_experts_no_tokens(library: Any, draw: Draw) -> Call:
    """No tokens, in a process of its own: it may be the end of it."""
    weights = [draw.normal((1, outputs, SIZE), torch.bfloat16) for outputs in (2 * SIZE, SIZE)]
    layer = Layer(BF16, *map(library.convert_weight_packed, weights))
    x, (chosen, shares) = torch.empty(0, SIZE, dtype=torch.bfloat16), _one_expert(0)

    def run() -> dict[str, torch.Tensor]:
        run_ranks(library, [lambda: layer.run(library, x.clone(), x, shares, chosen)])
        return {"out": x}

    return Call(run, lambda: {"out": Exact(x)})


@cases("fused_experts_cpu", "convert_weight_packed", kind=["plain", "int8", "fp8"], tokens=[4])
def fused_experts_float16(library: Any, draw: Draw, *, kind: str, tokens: int) -> Call:
    """Tokens in float16 are computed or refused, in a process of its own: it may be the end of it."""
    method, dtype = {"plain": (BF16, torch.float16), "int8": (INT8_W8A8, torch.int8), "fp8": (FP8_W8A16, E4M3)}[kind]
    packed = [library.convert_weight_packed(torch.zeros(1, outputs, SIZE).to(dtype)) for outputs in (2 * SIZE, SIZE)]
    scales = (torch.ones(1, 2 * SIZE), torch.ones(1, SIZE)) if kind == "int8" else ONES
    layer, x = Layer(method, *packed, scales=scales, block=BLOCK), draw.normal((tokens, SIZE), torch.float16)
    chosen, shares = _one_expert(tokens)
    out, done = shared(torch.zeros_like(x)), shared(torch.zeros(1))

    def body() -> None:
        refusal(lambda: layer.run(library, out, x, shares, chosen))
        done.fill_(1)

    def run() -> dict[str, torch.Tensor]:
        run_ranks(library, [body])
        return {"out": out, "done": done}

    return Call(run, lambda: {"out": Exact(torch.zeros_like(x)), "done": Exact(torch.ones(1))})
