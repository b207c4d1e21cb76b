"""Products of rows that are quantised to int8 on the way with packed weights in int8."""

from __future__ import annotations

from typing import Any

import torch

from cases.matmul import double, multiples, rows_of_sizes
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected
from oracles import matmul
from oracles.quantisation import INT8

SLACK = 2.0**-10
"""Far above the float32 roundings of quantisation, far below the distance of int8 values."""


def product(
    library: Any,
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    packed: bool,
) -> Call:
    """Multiply; the weight is packed before, or by the product."""

    def run() -> dict[str, torch.Tensor]:
        ready = library.convert_weight_packed(weight)
        return {
            "out": library.int8_scaled_mm_with_quant(
                x, ready if packed else weight, weight_scale, bias, x.dtype, packed
            )
        }

    def expected() -> dict[str, Expected]:
        scale = INT8.scales(x.double())
        q = INT8.nearest(x.double() / scale[:, None])
        return {"out": matmul.linear_of_integers(q, scale, weight.double(), weight_scale.double(), double(bias))}

    return Call(run, expected)


@cases(
    "int8_scaled_mm_with_quant",
    "convert_weight_packed",
    deep={"rows": lambda st: st.integers(1, 100), "sizes": lambda st: st.tuples(multiples(st, 32), multiples(st, 32))},
    where=lambda rows, bias, packed, padded, **_: (packed or rows in {1, 33}) and (bias or not padded),
    dtype=[torch.bfloat16],
    rows=[1, 2, 3, 4, 5, 33, 70],
    # Outputs, inputs. The sums of 4096 products exceed what float32 holds exactly.
    sizes=[(32, 32), (64, 160), (352, 96), (96, 4096)],
    bias=[False, True],
    packed=[False, True],
    padded=[False, True],
)
def int8_scaled_mm_with_quant(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    rows: int,
    sizes: tuple[int, int],
    bias: bool,
    packed: bool,
    padded: bool,
) -> Call:
    """Rows of the input may be parts of wider ones."""
    outputs, inputs = sizes
    x = rows_of_sizes(draw, rows, inputs, dtype)
    x = INT8.unambiguous(x, INT8.scales(x.double()), SLACK)
    weight = draw.integers(sizes, -128, 128, torch.int8)
    weight_scale = draw.uniform([outputs], 2**-8, 2**-6)
    b = draw.normal([outputs], scale=10.0) if bias else None
    return product(library, draw.strided(x) if padded else x, weight, weight_scale, b, packed=packed)


@cases("int8_scaled_mm_with_quant", "convert_weight_packed", dtype=[torch.bfloat16], rows=[1, 4, 6])
def int8_scaled_mm_quantises(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """The unit matrix, and scales that are powers of two, give the quantised input exactly."""
    x = draw.normal((rows, 64))
    x *= 100 / x.abs().amax(-1, keepdim=True)
    scale = 2.0 ** torch.arange(rows)
    x[:, 17] = -127
    x = (x * scale[:, None]).to(dtype)
    x = INT8.unambiguous(x, scale.double(), SLACK)
    weight, weight_scale = torch.eye(64, dtype=torch.int8), torch.ones(64)
    call = product(library, x, weight, weight_scale, None, packed=True)
    return Call(call.run, lambda: {"out": Exact(INT8.rounded(x, scale.double()).to(dtype))})


@cases(
    "int8_scaled_mm_with_quant",
    wrong=["inputs", "scales", "scales_type", "bias_size", "bias_type", "x_type", "out_type", "weight_type", "3d"],
)
def int8_scaled_mm_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    x, weight = draw.normal((2, 32), torch.bfloat16), draw.integers((32, 32), -128, 128, torch.int8)
    arguments = {"mat1": x, "mat2": weight, "scales2": torch.ones(32), "bias": None, "out_dtype": x.dtype}
    arguments |= {
        "inputs": {"mat1": draw.normal((2, 64), torch.bfloat16)},
        "scales": {"scales2": torch.ones(16)},
        "scales_type": {"scales2": torch.ones(32).bfloat16()},
        "bias_size": {"bias": torch.ones(16)},
        "bias_type": {"bias": torch.ones(32).bfloat16()},
        "x_type": {"mat1": x.float(), "out_dtype": torch.float32},
        "out_type": {"out_dtype": torch.float16},
        "weight_type": {"mat2": weight.bfloat16()},
        "3d": {"mat1": x[None]},
    }[wrong]
    return refused(lambda: library.int8_scaled_mm_with_quant(**arguments, is_vnni=False))
