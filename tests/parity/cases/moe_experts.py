"""Experts whose weights are packed for brgemm, and what they refuse; quantised ones are in moe_quantised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cases import versions
from cases.moe import DEEP, biases, routes, weights
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Expected
from oracles import moe

BF16, INT8_W8A8, FP8_W8A16, INT4_W4A8, MXFP4, FP8_W8A8 = range(6)
"""Ways to compute, by the numbers that the operator knows."""
# Tokens, experts, experts of a token: one to five tokens of an expert on average, where kernels do without brgemm up
# to four, and more than the 32 that are one block.
ROUTES = [(1, 3, 2), (3, 4, 3), (9, 2, 1), (17, 4, 3), (70, 2, 1)]
# Hidden and inner size; blocks have 32.
WIDTHS = [(32, 64), (160, 96), (64, 192)]
PLAIN_WIDTHS = [(32, 64), (64, 192), (256, 64), (256, 288)]
ALPHA, LIMIT = 1.702, 7.0
GATES = {"silu": moe.GATES["silu"], "clamped": moe.swiglu(ALPHA, LIMIT)}
"""Those of all versions; the clamped one is chosen by its limit where the operator has no argument for it."""
GELUS = {"gelu": moe.GATES["gelu"], "gelu_tanh": moe.GATES["gelu_tanh"]}
METHODS = {"silu": 0, "clamped": 1, "gelu": 2, "gelu_tanh": 3}
"""Activations, by the numbers that the operator knows."""


@dataclass(frozen=True)
class Layer:
    """The weights of a call, packed, and what goes with them.

    Attributes:
        method: How to compute.
        up: Gates and linear units.
        down: Back to the hidden size.
        scales: Of both.
        zeros: Of both.
        input_scale: Of each token.
        block: The outputs and inputs that share a scale.
        biases: Of both.
        gate: The activation, of ``GATES``.
        packed: Whether the weights are packed.
    """

    method: int
    up: torch.Tensor
    down: torch.Tensor
    scales: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
    zeros: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
    input_scale: torch.Tensor | None = None
    block: Sequence[int] | None = None
    biases: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
    gate: str = "silu"
    packed: bool = True

    def run(self, library: Any, out: torch.Tensor, x: torch.Tensor, shares: torch.Tensor, chosen: torch.Tensor) -> None:
        """Call the operator."""
        alpha, limit = (ALPHA, LIMIT) if self.gate == "clamped" else (None, None)
        arguments = {
            "out": out,
            "hidden_states": x,
            "w1": self.up,
            "w2": self.down,
            "topk_weights": shares,
            "topk_ids": chosen,
            "inplace": False,
            "moe_comp_method": self.method,
            "w1_scale": self.scales[0],
            "w2_scale": self.scales[1],
            "w1_zero": self.zeros[0],
            "w2_zero": self.zeros[1],
            "a1_scale": self.input_scale,
            "block_size": self.block,
            "w1_bias": self.biases[0],
            "w2_bias": self.biases[1],
            "alpha": alpha,
            "limit": limit,
            "is_vnni": self.packed,
            "act_method": METHODS[self.gate],
        }
        versions.call(library, "fused_experts_cpu", arguments)


def call(
    library: Any,
    draw: Draw,
    layer: Layer,
    x: torch.Tensor,
    route: tuple[torch.Tensor, torch.Tensor],
    expected: Any,
    name: str = "out",
) -> Call:
    """Return the call of a layer, whose output is that of its tokens and has the dtype of the hidden states."""
    chosen, shares = route
    out = draw.output(x.shape, torch.bfloat16 if x.dtype == torch.float8_e4m3fn else x.dtype)

    def run() -> dict[str, torch.Tensor]:
        layer.run(library, out, x, shares, chosen)
        return {name: out}

    return Call(run, lambda: {name: expected()})


def bfloat16(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    gate: str,
    biased: bool,
    route: tuple[int, int, int],
    widths: tuple[int, int],
    scale: float = 1.0,
    packed: bool = True,
) -> Call:
    """Return the call of a layer whose weights are not quantised."""
    chosen, shares = routes(draw, *route)
    x = draw.normal((route[0], widths[0]), dtype, scale)
    up, down = weights(draw, route[1], widths, dtype)
    both = biases(draw, route[1], widths, torch.float32) if biased else (None, None)
    pack = library.convert_weight_packed if packed else torch.clone
    layer = Layer(BF16, pack(up), pack(down), biases=both, gate=gate, packed=packed)

    def expected() -> Expected:
        experts = moe.Experts(*(None if part is None else part.double() for part in (up, down, *both)))
        return moe.mixture(x.double(), experts, chosen, shares.double(), (GATES | GELUS)[gate], ("hidden", "share"))

    return call(library, draw, layer, x, (chosen, shares), expected)


def many(route: tuple[int, int, int]) -> bool:
    """Say whether experts have more than four tokens on average."""
    tokens, experts, count = route
    return tokens * count // experts > 4


def plain(gate: str, biased: bool, widths: tuple[int, int]) -> bool:
    """Say whether a case has no options, or sizes that options are tried with."""
    return (gate == "silu" and not biased) or widths not in PLAIN_WIDTHS


@cases(
    "fused_experts_cpu",
    "convert_weight_packed",
    deep=DEEP,
    dtype=[torch.bfloat16],
    gate=list(GATES),
    biased=[False, True],
    route=ROUTES,
    widths=WIDTHS,
    # With few tokens and silu the kernel takes no bias of the units, and says nothing.
    where=lambda gate, biased, route, widths, **_: (
        plain(gate, biased, widths) and (not biased or gate != "silu" or many(route))
    ),
)
def fused_experts(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Numbers of tokens, sizes, activations and biases."""
    return bfloat16(library, draw, **parameters)


@cases(
    "fused_experts_cpu",
    "convert_weight_packed",
    dtype=[torch.bfloat16],
    gate=list(GATES),
    route=[(3, 4, 2), (17, 4, 2)],
    scale=[0.01, 30.0],
)
def fused_experts_activation(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Activations where they are straight, and saturated."""
    return bfloat16(library, draw, biased=False, widths=(64, 96), **parameters)


@cases("fused_experts_cpu", dtype=[torch.bfloat16], route=[(3, 4, 2), (17, 4, 2)])
def fused_experts_unpacked(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Weights may be packed on the way."""
    return bfloat16(library, draw, gate="silu", biased=False, widths=(64, 96), packed=False, **parameters)


@cases(
    "fused_experts_cpu", "convert_weight_packed", dtype=[torch.bfloat16], ids=[torch.int32, torch.int64], tokens=[3, 17]
)
def fused_experts_routed(library: Any, draw: Draw, *, dtype: torch.dtype, ids: torch.dtype, tokens: int) -> Call:
    """Shares may have the dtype of the tokens, and experts be 64-bit numbers."""
    chosen, shares = routes(draw, tokens, 4, 2)
    chosen, shares = chosen.to(ids), shares.to(dtype)
    x = draw.normal((tokens, 64), dtype)
    up, down = weights(draw, 4, (64, 32), dtype)
    layer = Layer(BF16, library.convert_weight_packed(up), library.convert_weight_packed(down))

    def expected() -> Expected:
        experts = moe.Experts(up.double(), down.double())
        return moe.mixture(x.double(), experts, chosen, shares.double(), GATES["silu"], ("hidden", "share"))

    return call(library, draw, layer, x, (chosen, shares), expected)


@cases(
    "fused_experts_cpu",
    kind=["strided", "flat_weights", "experts", "hidden", "shares", "float32"]
    + [f"no_scales_{method}" for method in (INT8_W8A8, FP8_W8A16, MXFP4)],
)
def fused_experts_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Shapes that do not fit, float32, and quantised weights without scales."""
    dtype = torch.float32 if kind == "float32" else torch.bfloat16
    x = draw.normal((3, 64), dtype)
    x = draw.strided(x) if kind == "strided" else x
    up, down = weights(draw, 2, (64, 32), torch.bfloat16)
    method = int(kind[-1]) if kind.startswith("no_scales") else BF16
    if method != BF16:
        kinds = {INT8_W8A8: torch.int8, FP8_W8A16: torch.float8_e4m3fn, MXFP4: torch.uint8}
        width = 2 if method == MXFP4 else 1
        up, down = (torch.zeros((*part.shape[:2], part.shape[2] // width)).to(kinds[method]) for part in (up, down))
    match kind:
        case "flat_weights":
            up = up[0]
        case "experts":
            down = down[:1]
        case "hidden":
            down = torch.cat([down, down], 1)
    chosen, shares = routes(draw, 3, 2, 2)
    shares = shares[:, :1].contiguous() if kind == "shares" else shares
    layer = Layer(method, up, down, block=[128, 128], packed=False)
    out = draw.output((3, 64), torch.bfloat16)
    return refused(lambda: layer.run(library, out, x, shares, chosen))
