"""Products with packed weights in bfloat16 or float16."""

from __future__ import annotations

from typing import Any

import torch

from cases import versions
from cases.matmul import DTYPES, double, multiples
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Expected
from oracles import matmul

# Packing looks at blocks of 32 by 32; up to 4 rows have a kernel of their own.
ROWS = [1, 2, 3, 4, 5, 33, 70]


def linear(library: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> Call:
    """Pack the weight and multiply."""

    def run() -> dict[str, torch.Tensor]:
        packed = library.convert_weight_packed(weight)
        given = {"out": out, "mat1": x, "mat2": packed, "bias": bias, "is_vnni": True}
        versions.call(library, "weight_packed_linear", given)
        return {"out": out}

    def expected() -> dict[str, Expected]:
        return {"out": matmul.linear(x.double(), weight.double(), double(bias))}

    return Call(run, expected)


@cases(
    "weight_packed_linear",
    "convert_weight_packed",
    deep={"rows": lambda st: st.integers(1, 150), "sizes": lambda st: st.tuples(multiples(st, 16), multiples(st, 32))},
    where=lambda bias, padded, **_: bias or not padded,
    dtype=DTYPES,
    rows=ROWS,
    # Outputs, inputs. 16, 48 and 80 end in half a block.
    sizes=[(16, 32), (32, 64), (48, 96), (80, 1056), (352, 160)],
    bias=[False, True],
    padded=[False, True],
)
def weight_packed_linear(
    library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, sizes: tuple[int, int], bias: bool, padded: bool
) -> Call:
    """Rows of input and output may be parts of wider ones."""
    outputs, inputs = sizes
    x, out = draw.normal((rows, inputs), dtype), draw.output((rows, outputs), dtype)
    if padded:
        x, out = draw.strided(x), draw.strided(out)
    weight = draw.normal((outputs, inputs), dtype)
    return linear(library, x, weight, draw.normal([outputs], scale=10.0) if bias else None, out)


# The routers of DeepSeek V2 Lite, Qwen 3 30B A3B and DeepSeek V3.
@cases(
    "weight_packed_linear",
    "convert_weight_packed",
    dtype=DTYPES,
    rows=[1, 6],
    sizes=[(64, 2048), (128, 2048), (256, 7168)],
)
def weight_packed_linear_router(
    library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, sizes: tuple[int, int]
) -> Call:
    outputs, inputs = sizes
    x, weight = draw.normal((rows, inputs), dtype), draw.normal(sizes, dtype, scale=inputs**-0.5)
    return linear(library, x, weight, None, draw.output((rows, outputs), dtype))


@cases("weight_packed_linear", "convert_weight_packed", dtype=DTYPES, rows=[4, 6])
def weight_packed_linear_extreme(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """A row each with one that is not a number, infinity, large and small values, zeros, and -infinity."""
    x = draw.normal((6, 64), torch.float32)
    x[0, 5], x[1, 7], x[5, 63] = torch.nan, torch.inf, -torch.inf
    x[2] *= torch.finfo(dtype).max / 2**8
    x[3] = 0
    x[4] *= torch.finfo(dtype).tiny * 2**8
    weight = draw.normal((48, 64), dtype)
    return linear(library, x[:rows].to(dtype), weight, None, draw.output((rows, 48), dtype))


@cases(
    "weight_packed_linear",
    "convert_weight_packed",
    deep={
        "rows": lambda st: st.integers(1, 100),
        "sizes": lambda st: st.tuples(st.integers(1, 15), st.integers(1, 300)),
    },
    where=lambda bias, padded, **_: bias or not padded,
    dtype=[torch.bfloat16, torch.float16],
    rows=[1, 5, 33],
    # Fewer outputs than a block has, which are multiplied in float32; 8 are Mixtral's experts.
    sizes=[(1, 1), (7, 33), (15, 100), (8, 4096)],
    bias=[False, True],
    padded=[False, True],
)
def weight_packed_linear_few_outputs(
    library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, sizes: tuple[int, int], bias: bool, padded: bool
) -> Call:
    """Rows of the output may be parts of wider ones."""
    outputs, inputs = sizes
    x, out = draw.normal((rows, inputs), dtype), draw.output((rows, outputs), dtype)
    weight = draw.normal(sizes, dtype)
    return linear(library, x, weight, draw.normal([outputs]) if bias else None, draw.strided(out) if padded else out)


@cases(
    "weight_packed_linear",
    takes=["out"],
    wrong=["not_packed", "inputs", "bias_size", "bias_type", "x_type", "x_transposed", "out_type", "weight_3d"],
)
def weight_packed_linear_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    x, weight, bias = draw.normal((2, 32), torch.bfloat16), draw.normal((32, 32), torch.bfloat16), draw.normal([32])
    arguments = {"out": draw.output((2, 32), torch.bfloat16), "mat1": x, "mat2": weight, "bias": bias, "is_vnni": True}
    arguments |= {
        "not_packed": {"is_vnni": False},
        "inputs": {"mat1": draw.normal((2, 64), torch.bfloat16)},
        "bias_size": {"bias": draw.normal([16])},
        "bias_type": {"bias": bias.bfloat16()},
        "x_type": {"mat1": x.float()},
        "x_transposed": {"mat1": draw.normal((32, 2), torch.bfloat16).t()},
        "out_type": {"out": draw.output((2, 32), torch.float32)},
        "weight_3d": {"mat2": weight[None]},
    }[wrong]
    return refused(lambda: library.weight_packed_linear(**arguments))
