"""Quantising rows to E4M3, and their products with packed weights in E4M3."""

from __future__ import annotations

from typing import Any

import torch

from cases.matmul import TRUE, double, multiples, rows_of_sizes
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected, Near
from oracles import formats_fp8, matmul, packing
from oracles.quantisation import E4M3

FLOATS = [torch.bfloat16, torch.float16, torch.float32]
SLACK = 2.0**-10
"""Far above the float32 or float16 roundings of quantisation, below half the distance of E4M3's values."""
FLOOR = 2.0**-23
"""The least scale that the operators use, so that rows of zeros have one."""


def quantised(x: torch.Tensor, scales: torch.Tensor) -> dict[str, Expected]:
    """Return what is expected of the quantised tensor and its scales, (rows,)."""
    each = scales.reshape(-1, *[1] * (x.dim() - 1))
    return {"quantised": Near((x.double() / each).clamp(-E4M3.largest, E4M3.largest)), "scales": Near(scales)}


# Inputs are multiples of 32. 4096 is Llama 3 8B.
@cases(
    "quantize_fp8e4m3_vec",
    deep={"shape": lambda st: st.tuples(st.integers(1, 60), multiples(st, 32))},
    shape=[(1, 32), (3, 64), (17, 96), (5, 1056), (2, 4096), (2, 3, 64)],
    scale=[1.0, 2.0**-20, 2.0**20],
    transposed=[False, True],
)
def quantize_fp8e4m3_vec(library: Any, draw: Draw, *, shape: tuple[int, ...], scale: float, transposed: bool) -> Call:
    """Each row has a scale, and the last of several is zero."""
    flat = torch.Size(shape)[1:].numel()
    x = (rows_of_sizes(draw, shape[0], flat, torch.float32) * scale).bfloat16().reshape(shape)
    if transposed:
        x = x.mT.contiguous().mT

    def run() -> dict[str, torch.Tensor]:
        values, scales = library.quantize_fp8e4m3_vec(x, True, None)
        return {"quantised": values, "scales": scales}

    top = x.double().flatten(1).abs().amax(1)
    return Call(run, lambda: quantised(x, (top / E4M3.largest).clamp(min=FLOOR)))


@cases("quantize_fp8e4m3_vec", scales=[(), (1,), (3,), (2, 20)], shape=[(1, 32), (7, 96)])
def quantize_fp8e4m3_vec_static(library: Any, draw: Draw, *, scales: tuple[int, ...], shape: tuple[int, int]) -> Call:
    """One scale is given, or several, of which the largest counts; what exceeds it is saturated."""
    x = draw.normal(shape, torch.bfloat16, scale=4.0)
    scale = draw.uniform(scales, 2.0**-8, 2.0**-6)

    def run() -> dict[str, torch.Tensor]:
        values, used = library.quantize_fp8e4m3_vec(x, False, scale)
        return {"quantised": values, "scales": used}

    return Call(run, lambda: quantised(x, scale.double().max().reshape(1)))


@cases("quantize_fp8e4m3_vec", scale=[1.0, 2.0**-30])
def quantize_fp8e4m3_vec_extreme(library: Any, draw: Draw, *, scale: float) -> Call:
    """All magnitudes, infinities, halves between values, and a scale below the least."""
    x = draw.extremes((6, 64), torch.bfloat16)
    x[1, :2] = torch.tensor([torch.inf, -torch.inf])
    x[2] = torch.arange(64) / 2**10  # subnormal values, and between them
    x[3] = torch.arange(64) / 2 + 1

    def run() -> dict[str, torch.Tensor]:
        return {"quantised": library.quantize_fp8e4m3_vec(x, False, torch.tensor(scale))[0]}

    wanted = formats_fp8.nearest(x.double() / max(scale, FLOOR)).to(torch.float8_e4m3fn)
    return Call(run, lambda: {"quantised": Exact(wanted)})


def product(
    library: Any,
    x: torch.Tensor,
    x_scale: torch.Tensor | None,
    weight: torch.Tensor,
    weight_scales: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.dtype,
) -> Call:
    """Pack the weight and multiply."""

    def run() -> dict[str, torch.Tensor]:
        ready, scales = library.float8_linear_prepack_cpu(weight, weight_scales)
        return {"out": library.fp8_scaled_mm_with_quant(x, x_scale, x_scale is None, ready, scales, bias, out)}

    def expected() -> dict[str, Expected]:
        group = weight.shape[1] // weight_scales.shape[1]
        each = weight_scales.double().repeat_interleave(group, 1)
        return {"out": matmul.linear(dequantised(x, x_scale), weight.double() * each, double(bias))}

    return Call(run, expected, formats={"out": out})


def dequantised(x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """Return the values that the quantised input stands for; one scale for all, or the rows' own."""
    return E4M3.rounded(x, scales_of(x, scale))


def clear(x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    return E4M3.unambiguous(x, scales_of(x, scale), SLACK)


def scales_of(x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    return E4M3.scales(x.double()) if scale is None else scale.double().reshape(1)


@cases(
    "fp8_scaled_mm_with_quant",
    "float8_linear_prepack_cpu",
    deep={
        "rows": lambda st: st.integers(1, 100),
        "sizes": lambda st: st.tuples(multiples(st, 32, 4), multiples(st, 128, 4), st.just(128)),
    },
    dtype=FLOATS,
    out=FLOATS,
    rows=[1, 5, 33, 50],
    # Outputs, inputs, inputs with one scale. 320 are packed in blocks of 64.
    sizes=[(32, 32, 32), (64, 128, 32), (96, 320, 320), (32, 512, 128), (64, 512, 256)],
    bias=[False, True],
    static=[False, True],
    where=lambda dtype, out, rows, sizes, bias, static: (
        (dtype is out or (dtype is torch.bfloat16 and rows == 5))
        and (rows <= 5 or (bias and not static and sizes[1] < 512))
    ),
)
def fp8_scaled_mm_with_quant(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    out: torch.dtype,
    rows: int,
    sizes: tuple[int, int, int],
    bias: bool,
    static: bool,
) -> Call:
    """The input's rows have a scale each, or one that is given."""
    outputs, inputs, group = sizes
    scale = torch.tensor(0.0123) if static else None
    x = clear(draw.normal((rows, inputs), dtype) if static else rows_of_sizes(draw, rows, inputs, dtype), scale)
    weight = formats_fp8.finite(draw.integers((outputs, inputs), 0, 254))
    scales = draw.uniform((outputs, inputs // group), 2**-12, 2**-9)
    return product(library, x, scale, weight, scales, draw.normal([outputs]) if bias else None, out)


@cases("fp8_scaled_mm_with_quant", "float8_linear_prepack_cpu", dtype=FLOATS, rows=[1, 4])
def fp8_scaled_mm_quantises(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """The unit matrix, and scales that are powers of two, give the quantised input exactly."""
    x = draw.normal((rows, 64)).clamp(-3, 3) * 100
    x[:, 17] = -448
    scale = 2.0 ** -torch.arange(rows)
    x = E4M3.unambiguous((x * scale[:, None]).to(dtype), scale.double(), SLACK)
    weight = torch.eye(64).to(torch.float8_e4m3fn)
    call = product(library, x, None, weight, torch.ones(64, 1), None, torch.float32)
    return Call(call.run, lambda: {"out": Exact(dequantised(x, None).float() + 0.0)})  # sums have no -0


# A weight that is not packed needs one scale for all of the input.
@cases("fp8_scaled_mm_with_quant", dtype=FLOATS, out=FLOATS, static=[False, True], bias=[False, True])
def fp8_scaled_mm_unpacked(
    library: Any, draw: Draw, *, dtype: torch.dtype, out: torch.dtype, static: bool, bias: bool
) -> Call:
    """The scales of an unpacked weight are (outputs, 1); what has the largest size is the last of a row."""
    scale = torch.tensor(0.0123) if static else None
    inputs = 96 if dtype == torch.bfloat16 else 93  # those in bfloat16 are multiples of 32
    x = draw.normal((5 if static else 1, inputs), dtype)
    x[:, -1] = -5.0
    x = clear(x, scale)
    weight, scales = formats_fp8.finite(draw.integers((40, inputs), 0, 254)), draw.uniform((40, 1), 2**-12, 2**-9)
    b = draw.normal([40]) if bias else None

    def run() -> dict[str, torch.Tensor]:
        return {"unpacked": library.fp8_scaled_mm_with_quant(x, scale, not static, weight, scales, b, out)}

    def expected() -> dict[str, Expected]:
        return {"unpacked": matmul.linear(dequantised(x, scale), weight.double() * scales.double(), double(b))}

    return Call(run, expected, formats={"unpacked": out})


@cases("float8_linear_prepack_cpu", shape=[(32, 32, 1), (64, 128, 4), (96, 320, 1), (32, 512, 4), (64, 512, 2)])
def float8_linear_prepack(library: Any, draw: Draw, *, shape: tuple[int, int, int]) -> Call:
    """Packing moves weights and scales."""
    outputs, inputs, groups = shape
    scales = draw.permutation(outputs * groups).float().reshape(outputs, groups)
    blocked: list[torch.Tensor] = []

    def pack(digits: torch.Tensor) -> torch.Tensor:
        weight = digits.to(torch.uint8).view(torch.float8_e4m3fn).reshape(outputs, inputs)
        packed, moved = library.float8_linear_prepack_cpu(weight, scales)
        blocked.append(moved)
        return packed.view(torch.uint8).long().flatten()

    def run() -> dict[str, torch.Tensor]:
        places = packing.sources(pack, outputs * inputs, 2**8)
        return {"places": places.sort().values, "scales": blocked[-1].flatten().sort().values}

    def expected() -> dict[str, Expected]:
        counts = torch.arange(outputs * inputs), torch.arange(outputs * groups)
        return {"places": Exact(counts[0]), "scales": Exact(counts[1].float())}

    return Call(run, expected)


@cases("float8_linear_prepack_cpu", wrong=["weight_3d", "odd_inputs", "40_outputs", "scales"])
def float8_linear_prepack_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    shapes = {"weight_3d": (1, 32, 32), "odd_inputs": (32, 33), "40_outputs": (40, 32), "scales": (32, 32)}
    weight = formats_fp8.finite(draw.integers(shapes[wrong], 0, 254))
    scales = torch.ones(16 if wrong == "scales" else weight.shape[-2], 1)
    return refused(lambda: library.float8_linear_prepack_cpu(weight, scales))


@cases(
    "fp8_scaled_mm_with_quant",
    "float8_linear_prepack_cpu",
    wrong=["inputs", "no_scale", "bias_type", "out_type", "group_size", "rows_of_3d"],
)
def fp8_scaled_mm_with_quant_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    """Groups are of up to 128 inputs or a multiple of it; rows of three dimensions have no scales of their own."""
    inputs, groups = (384, 2) if wrong == "group_size" else (64, 1)
    weight = formats_fp8.finite(draw.integers((32, inputs), 0, 254))
    ready, scales = library.float8_linear_prepack_cpu(weight, torch.ones(32, groups))
    arguments = {"act": draw.normal((3, inputs)), "act_scales": None, "channelwise": True, "bias": None}
    arguments |= {"weight": ready, "weight_scales": scales, "output_dtype": torch.float32}
    arguments |= {
        "inputs": {"act": draw.normal((3, 96))},
        "no_scale": {"channelwise": False},
        "bias_type": {"bias": torch.ones(32).bfloat16()},
        "out_type": {"output_dtype": torch.float64},
        "group_size": {},
        "rows_of_3d": {"act": draw.normal((3, 2, inputs))},
    }[wrong]
    return refused(lambda: library.fp8_scaled_mm_with_quant(**arguments))


@cases("float8_linear_prepack_cpu", "fp8_scaled_mm_with_quant")
def fp8_scaled_mm_with_quant_3d(library: Any, draw: Draw) -> Call:
    """An input of three dimensions gives an output of three."""
    x, scale = draw.normal((2, 3, 32)), torch.tensor(0.0123)
    weight = formats_fp8.finite(draw.integers((32, 32), 0, 254))

    def run() -> dict[str, torch.Tensor]:
        ready, scales = library.float8_linear_prepack_cpu(weight, torch.ones(32, 1))
        three = library.fp8_scaled_mm_with_quant(x, scale, False, ready, scales, None, torch.float32)
        two = library.fp8_scaled_mm_with_quant(x.flatten(0, 1), scale, False, ready, scales, None, torch.float32)
        return {"same": torch.tensor(three.shape == (2, 3, 32) and torch.equal(three.flatten(0, 1), two))}

    return Call(run, lambda: {"same": TRUE})
