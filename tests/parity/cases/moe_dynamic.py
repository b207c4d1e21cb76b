"""Experts with 4-bit weights packed by PyTorch, whose products only Arm has."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from cases.moe import ARM, routes
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected
from oracles import moe, moe_quantised

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SILU, CLAMPED, PLAIN = range(3)
"""Activations, by the numbers that the operator knows; both first and last are silu."""
GATES = {SILU: moe.GATES["silu"], CLAMPED: moe.Gate(moe.GATES["swigluoai"].function), PLAIN: moe.GATES["silu"]}
WHOLE = -1
"""A group size: all inputs of an output share a scale."""


@cache
def _has(dtype: torch.dtype, group: int) -> bool:
    """Return whether torch, whose product it is, has it on this CPU.

    The operator asks for bfloat16 only where all inputs of an output share a scale, and torch has that where the CPU
    has BF16 instructions.
    """
    if dtype != torch.bfloat16 or group != WHOLE:
        return True
    packed = _packed(torch.zeros(1, 32, 64), torch.ones(1, 32, 1), WHOLE)[0]
    try:
        torch.ops.aten._dyn_quant_matmul_4bit(torch.zeros(1, 64, dtype=dtype), packed, 64, 64, 32)
    except RuntimeError:
        return False
    return True


def _packed(codes: torch.Tensor, scales: torch.Tensor, group: int) -> torch.Tensor:
    """Pack codes of -8 to 7, (experts, outputs, inputs)."""
    _, outputs, inputs = codes.shape
    nibbles = (codes + 8).to(torch.uint8)
    pairs = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
    size = inputs if group == WHOLE else group
    pack = torch.ops.aten._dyn_quant_pack_4bit_weight
    return torch.stack([pack(*each, None, size, inputs, outputs) for each in zip(pairs, scales, strict=True)])


@cases(
    "dynamic_4bit_int_moe",
    dtype=DTYPES,
    group=[WHOLE, 32, 64],
    kind=[SILU, CLAMPED, PLAIN],
    route=[(1, 4, 2), (5, 4, 3), (17, 8, 2), (9, 2, 1)],
    before=[False, True],
    where=lambda route, before, **_: ARM and (not before or route[2] == 1),
)
def dynamic_4bit_int_moe(
    library: Any, draw: Draw, *, dtype: torch.dtype, group: int, kind: int, route: tuple[int, int, int], before: bool
) -> Call:
    """Groups of weights, activations, and shares that count before the experts instead of after them.

    What torch has not on this CPU is refused.
    """
    hidden, inner = 64, 128
    chosen, shares = routes(draw, *route)
    x = draw.normal((route[0], hidden), dtype)
    decoded, packed = [], []
    for outputs, inputs in ((2 * inner, hidden), (hidden, inner)):
        codes = draw.integers((route[1], outputs, inputs), -8, 8)
        count = 1 if group == WHOLE else inputs // group
        scales = draw.uniform((route[1], outputs, count), 0.5, 1.5) / (4.6 * inputs**0.5)
        scales = scales if group == WHOLE else scales.bfloat16()
        decoded.append(codes.double() * scales.double().repeat_interleave(inputs // count, -1))
        packed.append(_packed(codes, scales, group))

    if not _has(dtype, group):
        return refused(
            lambda: library.dynamic_4bit_int_moe(x, chosen.long(), shares, *packed, hidden, inner, group, before, kind)
        )

    def run() -> dict[str, torch.Tensor]:
        return {
            "out": library.dynamic_4bit_int_moe(x, chosen.long(), shares, *packed, hidden, inner, group, before, kind)
        }

    def expected() -> dict[str, Expected]:
        scaled, share = (x.double() * shares.double(), torch.ones_like(shares)) if before else (x.double(), shares)
        rounded = ("units", "hidden", "product", "share") if dtype == torch.bfloat16 else ()
        step = moe_quantised.range_step
        return {
            "out": moe.mixture(scaled, moe.Experts(*decoded), chosen, share.double(), GATES[kind], rounded, step, step)
        }

    return Call(run, expected)


@cases("dynamic_4bit_int_moe", dtype=DTYPES, count=[1, 2])
def dynamic_4bit_int_moe_without_tokens(library: Any, draw: Draw, *, dtype: torch.dtype, count: int) -> Call:
    """No tokens give no output, everywhere."""
    x = draw.normal((0, 64), dtype)
    ids, shares = torch.empty((0, count), dtype=torch.int64), torch.empty((0, count))
    packed = torch.empty((2, 8), dtype=torch.uint8), torch.empty((2, 8), dtype=torch.uint8)
    return Call(
        lambda: {"out": library.dynamic_4bit_int_moe(x, ids, shares, *packed, 64, 32, 32, False, SILU)},
        lambda: {"out": Exact(x.clone())},
    )


@cases(
    "dynamic_4bit_int_moe",
    kind=["flat_input", "flat_ids", "experts", "unknown_expert", "negative_expert"] + ["x86"] * (not ARM),
)
def dynamic_4bit_int_moe_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Shapes that do not fit, experts that do not exist, and any tokens at all where there is no product."""
    x = draw.normal((64,) if kind == "flat_input" else (3, 64))
    ids = torch.tensor([[0], [1], [{"unknown_expert": 2, "negative_expert": -1}.get(kind, 0)]])
    ids = ids.flatten() if kind == "flat_ids" else ids
    shares = draw.uniform(ids.shape, 0.1, 1)
    packed = [torch.zeros((experts, 8), dtype=torch.uint8) for experts in (2, 3 if kind == "experts" else 2)]
    arguments = (x, ids, shares, *packed, 64, 32, 32, False, SILU)
    return refused(lambda: library.dynamic_4bit_int_moe(*arguments))
