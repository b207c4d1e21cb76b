"""Experts with weights of 8-bit and 4-bit integers and floating-point numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from cases import moe_experts
from cases.moe import DEEP, biases, routes
from cases.moe_experts import ROUTES, WIDTHS, Layer
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Expected
from oracles import moe, moe_quantised

E4M3 = torch.float8_e4m3fn
STORED = ("units", "hidden", "product", "share")
"""What kernels with floating-point weights store in the data type."""
AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


def shapes_of(experts: int, widths: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Return the shapes of weights: experts, outputs and inputs of the two products."""
    hidden, inner = widths
    return [(experts, 2 * inner, hidden), (experts, hidden, inner)]


def eights(draw: Draw, shape: Sequence[int], size: float = 64.0) -> torch.Tensor:
    """Return 8-bit floating-point numbers, hardly any of which are subnormal."""
    return draw.normal(shape, scale=size).clamp(-448, 448).to(E4M3)


def scales_for(draw: Draw, shape: Sequence[int], inputs: int, size: float) -> torch.Tensor:
    """Return scales with which weights of a size keep the size of what they are multiplied with."""
    return draw.uniform(shape, 0.5, 1.5) / (size * inputs**0.5)


def _each(
    decode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], codes: list[torch.Tensor], scales: list[torch.Tensor]
) -> list[torch.Tensor]:
    return list(map(decode, codes, scales))


def int8(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    route: tuple[int, int, int],
    widths: tuple[int, int],
    gate: str = "silu",
    packed: bool = True,
) -> Call:
    """Return the call of a layer with weights of 8-bit integers, of which each output has a scale."""
    shapes = shapes_of(route[1], widths)
    codes = [draw.integers(shape, -128, 128, torch.int8) for shape in shapes]
    scales = [scales_for(draw, shape[:2], shape[2], 73.0) for shape in shapes]
    parts = map(library.convert_weight_packed, codes) if packed else codes
    layer = Layer(moe_experts.INT8_W8A8, *parts, scales=tuple(scales), gate=gate, packed=packed)
    return _integers(library, draw, layer, partial(_each, moe_quantised.channels, codes, scales), dtype, route, widths)


@cases(
    "fused_experts_cpu",
    "convert_weight_packed",
    deep=DEEP,
    dtype=[torch.bfloat16, torch.float16],
    route=ROUTES,
    widths=WIDTHS,
    # Few tokens with float16 end the process.
    where=lambda dtype, route, widths: dtype == torch.bfloat16 or (moe_experts.many(route) and widths != WIDTHS[0]),
)
def fused_experts_int8(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Inputs of both products become 8-bit integers."""
    return int8(library, draw, **parameters)


@cases("fused_experts_cpu", dtype=[torch.bfloat16], route=[(3, 4, 2), (17, 4, 2)])
def fused_experts_int8_unpacked(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Weights may be packed on the way."""
    return int8(library, draw, widths=(64, 96), packed=False, **parameters)


@cases(
    "fused_experts_cpu",
    "convert_weight_packed_scale_zp",
    dtype=[torch.bfloat16, torch.float16],
    layout=["awq", "gptq"],
    route=ROUTES,
    # Inputs that share a scale and a zero, and the sizes.
    sizes=[(32, 32, 64), (128, 128, 128), (64, 192, 64), (256, 256, 256)],
    where=lambda dtype, layout, sizes, **_: (dtype == torch.bfloat16) == (layout == "awq") or sizes[0] == 32,
)
def fused_experts_int4(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    layout: str,
    route: tuple[int, int, int],
    sizes: tuple[int, int, int],
) -> Call:
    """Inputs of both products become 8-bit integers; groups of the weights' inputs have a zero and a scale."""
    group, *widths = sizes
    parts = []
    for experts, outputs, inputs in shapes_of(route[1], (widths[0], widths[1])):
        codes = draw.integers((experts, inputs, outputs), 0, 16, torch.int32)
        zeros = draw.integers((experts, inputs // group, outputs), 1, 16, torch.int32)
        parts.append((codes, zeros, scales_for(draw, zeros.shape, inputs, 6.5).bfloat16()))
    ups, downs = (_fours(library, layout, *part) for part in parts)
    layer = Layer(moe_experts.INT4_W4A8, ups[0], downs[0], (ups[2], downs[2]), (ups[1], downs[1]))

    def decoded() -> list[torch.Tensor]:
        return [moe_quantised.groups(*part) for part in parts]

    return _integers(library, draw, layer, decoded, dtype, route, (widths[0], widths[1]), ("units",))


def _fours(
    library: Any, layout: str, codes: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Put eight 4-bit integers into each 32-bit one, as AWQ or GPTQ does, and have them packed."""
    if layout == "awq":
        return library.convert_weight_packed_scale_zp(_words(codes, AWQ_ORDER), _words(zeros, AWQ_ORDER), scales, 0)
    weight = _words(codes.transpose(1, 2), range(8)).transpose(1, 2).contiguous()
    # GPTQ stores zeros less one.
    return library.convert_weight_packed_scale_zp(weight, _words(zeros - 1, range(8)), scales, 1)


def _words(codes: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """Return int32: place ``order[i]`` of a word's eight has the i-th of eight codes along the last dimension."""
    eights = codes.unflatten(-1, (-1, 8))
    return sum((eights[..., number] << 4 * place for number, place in enumerate(order)), torch.tensor(0)).int()


def _integers(
    library: Any,
    draw: Draw,
    layer: Layer,
    decoded: Callable[[], list[torch.Tensor]],
    dtype: torch.dtype,
    route: tuple[int, int, int],
    widths: tuple[int, int],
    stored: tuple[str, ...] = (),
) -> Call:
    """Return the call of a layer that rounds its inputs to integers. float16 is fine enough not to count."""
    chosen, shares = routes(draw, *route)
    x = draw.normal((route[0], widths[0]), dtype)
    # A token that has no scale.
    x[1::7] = 0
    rounded = ("hidden", "share", *stored) if dtype == torch.bfloat16 else ()

    def expected() -> Expected:
        inputs = moe_quantised.rows_int8(x.double())
        experts = moe.Experts(*decoded())
        step = moe_quantised.int8_step
        return moe.mixture(inputs, experts, chosen, shares.double(), moe.GATES[layer.gate], rounded, step)

    return moe_experts.call(library, draw, layer, x, (chosen, shares), expected, "integers")


def _floats(
    library: Any,
    draw: Draw,
    layer: Layer,
    decoded: Callable[[], list[torch.Tensor]],
    gate: str,
    route: tuple[int, int, int],
    rounded: tuple[str, ...],
) -> Call:
    """Return the call of a layer with weights of floating-point numbers."""
    chosen, shares = routes(draw, *route)
    x = draw.normal((route[0], layer.down.shape[1]), torch.bfloat16)

    def expected() -> Expected:
        parts = [part.double() for part in layer.biases if part is not None]
        gates = (moe_experts.GATES | moe_experts.GELUS)[gate]
        return moe.mixture(x.double(), moe.Experts(*decoded(), *parts), chosen, shares.double(), gates, rounded)

    return moe_experts.call(library, draw, layer, x, (chosen, shares), expected)


@cases(
    "fused_experts_cpu",
    "convert_weight_packed",
    deep=DEEP,
    gate=list(moe_experts.GATES),
    biased=[False, True],
    route=ROUTES,
    widths=[(32, 64), (160, 96), (256, 288)],
    # The outputs that share a scale; it is always 128 inputs.
    outputs=[32, 128],
    where=lambda gate, biased, widths, outputs, **_: (
        moe_experts.plain(gate, biased, widths)
        and (outputs == 32 or (gate == "silu" and not biased and widths[0] > 32))
    ),
)
def fused_experts_fp8(
    library: Any,
    draw: Draw,
    *,
    gate: str,
    biased: bool,
    route: tuple[int, int, int],
    widths: tuple[int, int],
    outputs: int,
) -> Call:
    """Blocks of weights have a scale; those at the ends are smaller."""
    shapes, block = shapes_of(route[1], widths), (outputs, 128)
    codes = [eights(draw, shape) for shape in shapes]
    counts = [(shape[0], -(-shape[1] // outputs), -(-shape[2] // 128)) for shape in shapes]
    scales = [scales_for(draw, count, shape[2], 64.0) for count, shape in zip(counts, shapes, strict=True)]
    layer = Layer(
        moe_experts.FP8_W8A16,
        *map(library.convert_weight_packed, codes),
        scales=tuple(scales),
        block=block,
        biases=biases(draw, route[1], widths, torch.float32) if biased else (None, None),
        gate=gate,
    )

    def decoded() -> list[torch.Tensor]:
        return [moe_quantised.blocks(*pair, block) for pair in zip(codes, scales, strict=True)]

    return _floats(library, draw, layer, decoded, gate, route, ("terms", *STORED))


@cases(
    "fused_experts_cpu",
    "convert_weight_packed",
    "convert_scale_packed",
    deep=DEEP,
    gate=list(moe_experts.GATES),
    biased=[False, True],
    route=ROUTES,
    widths=[(32, 64), (160, 96), (256, 64)],
    where=lambda gate, biased, widths, **_: moe_experts.plain(gate, biased, widths),
)
def fused_experts_mxfp4(
    library: Any, draw: Draw, *, gate: str, biased: bool, route: tuple[int, int, int], widths: tuple[int, int]
) -> Call:
    """All codes, with exponents around those that keep the size of what is multiplied."""
    codes, scales = [], []
    for experts, outputs, inputs in shapes_of(route[1], widths):
        middle = 126 - inputs.bit_length() // 2
        codes.append(draw.integers((experts, outputs, inputs // 2), 0, 256, torch.uint8))
        scales.append(draw.integers((experts, outputs, inputs // 32), middle - 2, middle + 2, torch.uint8))
    layer = Layer(
        moe_experts.MXFP4,
        *map(library.convert_weight_packed, codes),
        scales=tuple(map(library.convert_scale_packed, scales)),
        biases=biases(draw, route[1], widths, torch.float32) if biased else (None, None),
        gate=gate,
    )

    decoded = partial(_each, moe_quantised.microscaled, codes, scales)
    return _floats(library, draw, layer, decoded, gate, route, STORED)
