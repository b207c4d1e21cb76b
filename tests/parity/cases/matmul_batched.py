"""Products of batches of matrices with packed weights in 16 bits or E4M3."""

from __future__ import annotations

from typing import Any

import torch

from cases.matmul import DTYPES, multiples
from harness.case import Call, cases, refused
from harness.draw import Draw
from oracles import formats_fp8, matmul

BATCH = 2
UNSUPPORTED = {
    "48_outputs": {"out": (2, 3, 48), "mat2": (2, 48, 32)},
    "inputs": {"mat1": (2, 3, 64)},
    "batch": {"mat2": (3, 32, 32)},
    "rows": {"out": (2, 4, 32)},
    "2d": {"mat1": (2, 32)},
}


@cases(
    "bmm_cpu",
    "convert_weight_packed",
    deep={"rows": lambda st: st.integers(0, 100), "sizes": lambda st: st.tuples(multiples(st, 32), multiples(st, 32))},
    where=lambda packed, rows, **_: packed or rows in {1, 33},
    dtype=DTYPES,
    rows=[0, 1, 4, 5, 33],
    # Outputs, inputs. 512 and 128 are DeepSeek's latent and head.
    sizes=[(32, 32), (96, 160), (512, 128)],
    packed=[False, True],
    transposed=[False, True],
)
def bmm(
    library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, sizes: tuple[int, int], packed: bool, transposed: bool
) -> Call:
    """Input and output may be views of (rows, batch, ...), as attention has them."""
    outputs, inputs = sizes
    x, out = batched(draw, rows, inputs, outputs, dtype, transposed=transposed)
    weight = draw.normal((BATCH, *sizes), dtype)
    return product(library, out, x, weight, packed=packed)


@cases("bmm_cpu", wrong=list(UNSUPPORTED))
def bmm_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    shapes = {"out": (2, 3, 32), "mat1": (2, 3, 32), "mat2": (2, 32, 32)} | UNSUPPORTED[wrong]
    tensors = {name: draw.normal(shape, torch.bfloat16) for name, shape in shapes.items()}
    return refused(lambda: library.bmm_cpu(**tensors, is_vnni=True, scale=None))


@cases(
    "bmm_cpu",
    "convert_weight_packed",
    where=lambda packed, rows, **_: packed or rows in {1, 33},
    dtype=[torch.bfloat16],
    rows=[1, 2, 3, 4, 5, 33],
    # Sums are computed in blocks of 128 inputs.
    sizes=[(32, 32), (96, 288), (512, 128)],
    packed=[False, True],
    transposed=[False, True],
)
def bmm_fp8(
    library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, sizes: tuple[int, int], packed: bool, transposed: bool
) -> Call:
    """All finite weights, with one scale."""
    outputs, inputs = sizes
    x, out = batched(draw, rows, inputs, outputs, dtype, transposed=transposed)
    weight = formats_fp8.finite(draw.integers((BATCH, *sizes), 0, 254))
    return product(library, out, x, weight, torch.tensor(0.0123), packed=packed)


@cases("bmm_cpu", "convert_weight_packed", dtype=[torch.bfloat16], rows=[1, 4, 5])
def bmm_fp8_small_weights(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """Zeros, subnormal and the smallest normal numbers."""
    x, out = batched(draw, rows, 64, 32, dtype, transposed=False)
    weight = formats_fp8.finite(draw.integers((BATCH, 32, 64), 0, 16) + 127 * draw.integers((BATCH, 32, 64), 0, 2))
    return product(library, out, x, weight, torch.tensor(1.0), packed=True)


@cases("bmm_cpu", wrong=["scale", "x_type", "weight_type"])
def bmm_fp8_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    x, weight = draw.normal((1, 2, 32), torch.bfloat16), formats_fp8.finite(draw.integers((1, 32, 32), 0, 254))
    arguments = {"out": torch.empty_like(x), "mat1": x, "mat2": weight, "scale": torch.tensor(1.0)}
    arguments |= {
        "scale": {"scale": torch.ones(1)},
        "x_type": {"mat1": x.half()},
        "weight_type": {"mat2": weight.bfloat16()},
    }[wrong]
    return refused(lambda: library.bmm_cpu(**arguments, is_vnni=True))


def product(
    library: Any,
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor | None = None,
    *,
    packed: bool,
) -> Call:
    """Return the call, to which weights are given as they are or packed."""

    def run() -> dict[str, torch.Tensor]:
        ready = library.convert_weight_packed(weight)
        library.bmm_cpu(out, x, ready if packed else weight, packed, scale)
        return {"out": out}

    factor = 1.0 if scale is None else scale.double()
    return Call(run, lambda: {"out": matmul.linear(x.double(), weight.double() * factor)})


def batched(
    draw: Draw, rows: int, inputs: int, outputs: int, dtype: torch.dtype, *, transposed: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input and output of a batched product."""
    if not transposed:
        return draw.normal((BATCH, rows, inputs), dtype), draw.output((BATCH, rows, outputs), dtype)
    x, out = draw.normal((rows, BATCH, inputs + 8), dtype), draw.output((rows, BATCH, outputs), dtype)
    return x[..., :inputs].transpose(0, 1), out.transpose(0, 1)
