"""Calls that products with packed weights take and get wrong; docs/findings.md has one heading for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from cases import versions
from cases.matmul import TRUE
from cases.matmul_batched import product
from cases.matmul_bf16 import linear
from cases.matmul_fp8 import block_scaled, weights
from harness.case import Call, cases, refusal
from harness.draw import Draw
from harness.expected import Exact
from harness.ranks import run_ranks, shared
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


@cases("fp8_scaled_mm_with_quant", static=[False, True], inputs=[31, 33, 95])
def fp8_scaled_mm_odd_inputs(library: Any, draw: Draw, *, static: bool, inputs: int) -> Call:  # noqa: ARG001
    """An unpacked weight, and inputs in bfloat16 that are no multiple of 32; the largest is the last."""
    rows = 3 if static else 1
    x, weight = torch.ones(rows, inputs, dtype=torch.bfloat16), torch.ones(32, inputs).to(torch.float8_e4m3fn)
    x[:, -1] = 448  # the largest number of E4M3: the scale is 1 either way
    scale, scales = torch.ones(1) if static else None, torch.ones(32, 1)

    def run() -> dict[str, torch.Tensor]:
        return {"out": library.fp8_scaled_mm_with_quant(x, scale, not static, weight, scales, None, torch.float32)}

    return Call(run, lambda: {"out": Exact(torch.full((rows, 32), inputs - 1 + 448.0))})


@cases("float8_linear_prepack_cpu")
def float8_linear_prepack_scales(library: Any, draw: Draw) -> Call:
    """Scales of one dimension keep it."""
    weight, scales = formats_fp8.finite(draw.integers((32, 32), 0, 254)), torch.ones(32)

    def run() -> dict[str, torch.Tensor]:
        library.float8_linear_prepack_cpu(weight, scales)
        return {"same": torch.tensor(scales.shape == (32,))}

    return Call(run, lambda: {"same": TRUE})


E4M3 = torch.float8_e4m3fn
WEIGHT = torch.zeros(32, 32)


def _alone(library: Any, call: Callable[[], object]) -> Call:
    """A call whose result does not matter, in a process of its own: it may be the end of it."""
    done = shared(torch.zeros(1))

    def body() -> None:
        call()
        done.fill_(1)

    def run() -> dict[str, torch.Tensor]:
        run_ranks(library, [body])
        return {"done": done}

    return Call(run, lambda: {"done": Exact(torch.ones(1))})


def _product(library: Any, kind: str, x: torch.Tensor) -> object:
    """Multiply rows with a packed weight of zeros."""
    out = torch.zeros_like(x)
    match kind:
        case "plain":
            given = {"out": out, "mat1": x, "mat2": library.convert_weight_packed(WEIGHT.to(x.dtype)), "bias": None}
            return versions.call(library, "weight_packed_linear", {**given, "is_vnni": True})
        case "int8":
            packed = library.convert_weight_packed(WEIGHT.to(torch.int8))
            return library.int8_scaled_mm_with_quant(x, packed, torch.ones(32), None, x.dtype, True)
        case _:
            packed = library.convert_weight_packed(WEIGHT.to(E4M3))
            return library.fp8_scaled_mm_cpu(x, packed, torch.ones(1, 1), [32, 128], None, x.dtype, True)


KINDS = ["plain", "int8", "fp8"]
PRODUCTS = ("weight_packed_linear", "int8_scaled_mm_with_quant", "fp8_scaled_mm_cpu", "convert_weight_packed")


@cases(*PRODUCTS)
def packed_products_no_rows(library: Any, draw: Draw) -> Call:  # noqa: ARG001
    """No rows."""
    x = torch.empty(0, 32, dtype=torch.bfloat16)
    return _alone(library, lambda: [_product(library, kind, x) for kind in KINDS])


@cases(*PRODUCTS, rows=[3, 6])
def packed_products_float16(library: Any, draw: Draw, *, rows: int) -> Call:
    """Inputs in float16 are computed or refused."""
    x = draw.normal((rows, 32), torch.float16)
    return _alone(library, lambda: [refusal(partial(_product, library, kind, x)) for kind in KINDS])


@cases(
    "fp8_scaled_mm_with_quant",
    "float8_linear_prepack_cpu",
    dtype=[torch.bfloat16, torch.float32],
    packed=[False, True],
    scaled=[False, True],
)
def fp8_scaled_mm_no_rows(
    library: Any,
    draw: Draw,  # noqa: ARG001
    *,
    dtype: torch.dtype,
    packed: bool,
    scaled: bool,
) -> Call:
    """No rows, which have a scale each, or all one."""
    plain, given = (WEIGHT.to(E4M3), torch.ones(32, 1)), torch.ones(1) if scaled else None

    def call() -> None:
        ready = library.float8_linear_prepack_cpu(*plain)
        x = torch.empty(0, 32, dtype=dtype)
        weight, scales = ready if packed else plain
        out = library.fp8_scaled_mm_with_quant(x, given, not scaled, weight, scales, None, torch.float32)
        assert out.shape == (0, 32)

    return _alone(library, call)
