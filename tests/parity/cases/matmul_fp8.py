"""Products with packed weights in E4M3, whose input stays as it is."""

from __future__ import annotations

from typing import Any

import torch

from cases.matmul import double, multiples
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Expected
from oracles import formats_fp8, matmul

# Rows of a weight's block with one scale are multiples of 32, columns 128.
BLOCK = 128


def block_scaled(
    library: Any,
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    block: int,
    bias: torch.Tensor | None,
    *,
    packed: bool,
    output: str,
) -> Call:
    """Multiply; the weight is packed before, or by the product."""

    def run() -> dict[str, torch.Tensor]:
        ready = library.convert_weight_packed(weight)
        out = library.fp8_scaled_mm_cpu(x, ready if packed else weight, scales, [block, BLOCK], bias, x.dtype, packed)
        return {output: out}

    def expected() -> dict[str, Expected]:
        each = scales.double().repeat_interleave(block, 0).repeat_interleave(BLOCK, 1)
        scaled = weight.double() * each[: weight.shape[0], : weight.shape[1]]
        return {output: matmul.linear(x.double(), scaled, double(bias))}

    return Call(run, expected)


def weights(draw: Draw, shape: tuple[int, ...]) -> torch.Tensor:
    """Return normal numbers of 2^-6 to 2^3."""
    return formats_fp8.normal(draw.integers(shape, 0, 2), draw.integers(shape, -6, 4), draw.integers(shape, 0, 8))


def blocks(shape: tuple[int, int], block: int) -> tuple[int, int]:
    return -(-shape[0] // block), -(-shape[1] // BLOCK)


@cases(
    "fp8_scaled_mm_cpu",
    "convert_weight_packed",
    deep={"rows": lambda st: st.integers(1, 100), "sizes": lambda st: st.tuples(multiples(st, 32), multiples(st, 32))},
    where=lambda rows, block, bias, packed, **_: (packed or rows in {1, 33}) and (block == 128 or not bias),
    dtype=[torch.bfloat16],
    rows=[1, 2, 3, 4, 5, 33, 70],
    # Outputs, inputs. 160 and 288 end in part of a block.
    sizes=[(32, 32), (64, 128), (160, 160), (352, 288)],
    block=[32, 128, 352],
    bias=[False, True],
    packed=[False, True],
)
def fp8_scaled_mm(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    rows: int,
    sizes: tuple[int, int],
    block: int,
    bias: bool,
    packed: bool,
) -> Call:
    """Scales that are powers of two: weights times scales are exact. Rows of the input are parts of wider ones."""
    x = draw.strided(draw.normal((rows, sizes[1]), dtype))
    scales = 2.0 ** draw.integers(blocks(sizes, block), -8, 0)
    b = draw.normal(sizes[:1], scale=10.0) if bias else None
    return block_scaled(library, x, weights(draw, sizes), scales, block, b, packed=packed, output="out")


@cases(
    "fp8_scaled_mm_cpu",
    "convert_weight_packed",
    dtype=[torch.bfloat16],
    rows=[1, 4, 5, 33],
    # A head of DeepSeek V3's key and value projection, and its inputs.
    sizes=[(96, 160), (256, 512), (64, 7168)],
    bias=[False, True],
)
def fp8_scaled_mm_any_scale(
    library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, sizes: tuple[int, int], bias: bool
) -> Call:
    """Scales as models have them: weights times scales are rounded."""
    x, scales = draw.normal((rows, sizes[1]), dtype), draw.uniform(blocks(sizes, BLOCK), 2**-5, 2**-4)
    b = draw.normal(sizes[:1]) if bias else None
    return block_scaled(library, x, weights(draw, sizes), scales, BLOCK, b, packed=True, output="of_rounded")


@cases("fp8_scaled_mm_cpu", "convert_weight_packed", dtype=[torch.bfloat16], rows=[4, 6])
def fp8_scaled_mm_extreme(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """A row each with one that is not a number, infinity, zeros, and -infinity."""
    x = draw.normal((6, 160), dtype)
    x[0, 5], x[1, 7], x[2], x[5, 159] = torch.nan, torch.inf, 0, -torch.inf
    scales = 2.0 ** draw.integers((1, 2), -8, 0)
    return block_scaled(library, x[:rows], weights(draw, (64, 160)), scales, 64, None, packed=True, output="out")


@cases(
    "fp8_scaled_mm_cpu",
    wrong=[
        "inputs",
        "block_rows",
        "block_columns",
        "block_3d",
        "scales_rows",
        "scales_columns",
        "scales_type",
        "bias_size",
        "bias_type",
        "x_type",
        "out_type",
        "weight_type",
        "x_transposed",
    ],
)
def fp8_scaled_mm_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    x, weight = draw.normal((2, 128), torch.bfloat16), weights(draw, (64, 128))
    arguments = {"mat1": x, "mat2": weight, "scales2": torch.ones(2, 1), "block_size": [32, 128], "bias": None}
    arguments |= {"out_dtype": torch.bfloat16}
    arguments |= {
        "inputs": {"mat1": draw.normal((2, 64), torch.bfloat16)},
        "block_rows": {"block_size": [48, 128]},
        "block_columns": {"block_size": [32, 64], "scales2": torch.ones(2, 2)},
        "block_3d": {"block_size": [1, 32, 128]},
        "scales_rows": {"scales2": torch.ones(1, 1)},
        "scales_columns": {"scales2": torch.ones(2, 2)},
        "scales_type": {"scales2": torch.ones(2, 1).bfloat16()},
        "bias_size": {"bias": torch.ones(32)},
        "bias_type": {"bias": torch.ones(64).bfloat16()},
        "x_type": {"mat1": x.float(), "out_dtype": torch.float32},
        "out_type": {"out_dtype": torch.float16},
        "weight_type": {"mat2": weight.bfloat16()},
        "x_transposed": {"mat1": draw.normal((128, 2), torch.bfloat16).t()},
    }[wrong]
    return refused(lambda: library.fp8_scaled_mm_cpu(**arguments, is_vnni=False))
