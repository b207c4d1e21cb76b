"""Calls that products with packed weights take and get wrong; docs/findings.md has one heading for each."""

from __future__ import annotations

from typing import Any

import torch

from cases.matmul import TRUE
from cases.matmul_batched import product
from cases.matmul_bf16 import linear
from cases.matmul_fp8 import block_scaled, weights
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact
from oracles import formats_fp8


@cases("fp8_scaled_mm_cpu", "convert_weight_packed", dtype=[torch.bfloat16], rows=[1, 6], least=[0, 1])
def fp8_scaled_mm_small_weights(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, least: int) -> Call:
    """Zeros and subnormal numbers: weights below 2^-6 are taken for ones of up to 2^-6 more."""
    weight = formats_fp8.finite(draw.integers((32, 128), 0, 8 * least + 1) + 127 * draw.integers((32, 128), 0, 2))
    x = draw.normal((rows, 128), dtype)
    return block_scaled(library, x, weight, torch.ones(1, 1), 32, None, packed=True, output="out")


@cases("weight_packed_linear", "convert_weight_packed", dtype=[torch.bfloat16], rows=[2, 6])
def weight_packed_linear_few_outputs_padded(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """Rows of the input that are parts of wider ones, and fewer than 16 outputs."""
    x = draw.strided(draw.normal((rows, 32), dtype), padding=32)
    return linear(library, x, draw.normal((8, 32), dtype), None, draw.output((rows, 8), dtype))


@cases("weight_packed_linear", "convert_weight_packed", dtype=[torch.bfloat16], rows=[2])
def weight_packed_linear_odd_stride(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """Rows of the input that are an odd number of elements apart."""
    x = draw.strided(draw.normal((rows, 32), dtype), padding=1)
    return linear(library, x, draw.normal((32, 32), dtype), None, draw.output((rows, 32), dtype))


@cases("fp8_scaled_mm_cpu", "convert_weight_packed", dtype=[torch.bfloat16], rows=[2])
def fp8_scaled_mm_odd_stride(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """Rows of the input that are an odd number of elements apart."""
    x = draw.strided(draw.normal((rows, 32), dtype), padding=1)
    return block_scaled(library, x, weights(draw, (32, 32)), torch.ones(1, 1), 32, None, packed=True, output="out")


@cases("bmm_cpu", "convert_weight_packed", dtype=[torch.bfloat16], rows=[2])
def bmm_odd_stride(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """Rows of the input that are an odd number of elements apart."""
    x = draw.strided(draw.normal((2, rows, 32), dtype), padding=1)
    weight, out = draw.normal((2, 32, 32), dtype), draw.output((2, rows, 32), dtype)
    return product(library, out, x, weight, packed=True)


@cases("fp8_scaled_mm_with_quant")
def fp8_scaled_mm_unpacked_rows(library: Any, draw: Draw) -> Call:  # noqa: ARG001
    """An unpacked weight, and as many rows with a scale each as inputs."""
    x, weight = torch.diag(448 * torch.arange(1.0, 33)), torch.eye(32)
    x[0], weight[0, 1] = 448, 1

    def run() -> dict[str, torch.Tensor]:
        ready, scales = weight.to(torch.float8_e4m3fn), torch.ones(32, 1)
        return {"out": library.fp8_scaled_mm_with_quant(x, None, True, ready, scales, None, torch.float32)}

    return Call(run, lambda: {"out": Exact(x @ weight.T)})


@cases("float8_linear_prepack_cpu")
def float8_linear_prepack_scales(library: Any, draw: Draw) -> Call:
    """Scales of one dimension keep it."""
    weight, scales = formats_fp8.finite(draw.integers((32, 32), 0, 254)), torch.ones(32)

    def run() -> dict[str, torch.Tensor]:
        library.float8_linear_prepack_cpu(weight, scales)
        return {"same": torch.tensor(scales.shape == (32,))}

    return Call(run, lambda: {"same": TRUE})
