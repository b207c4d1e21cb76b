"""Products of inputs in 16 bits with weights of 4 bits."""

from __future__ import annotations

from typing import Any

import torch

from cases import versions
from cases.matmul import double, multiples
from cases.matmul_int4 import Weight, weight_of
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Expected
from oracles import formats_int4, matmul

DTYPES = [torch.bfloat16, torch.float16]
# What the operator is told to use: AMX only has a kernel for bfloat16.
HINTS = ["vec", *(["amx"] if torch.cpu._is_amx_tile_supported() else [])]
DEFAULT_ZERO = 8
"""The zero of weights without zeros."""


def words(weight: Weight) -> torch.Tensor:
    """Return the values in blocks of 16 outputs; in each, two words for each input."""
    return formats_int4.packed(weight.values).unflatten(-1, (-1, 2)).transpose(0, 1).flatten(1).contiguous()


def has_bfloat16(library: Any) -> bool:
    """Return whether a library is for x86 with AVX512-BF16; only such ones have AMX, too, and round to bfloat16."""
    return "weight_packed_linear" in library.operators


def product(
    library: Any,
    x: torch.Tensor,
    weight: Weight,
    bias: torch.Tensor | None,
    out: torch.Tensor,
    *,
    with_zeros: bool,
    hint: str,
    output: str,
) -> Call:
    zeros = formats_int4.packed(weight.zeros) if with_zeros else None
    stands_for = (
        weight if with_zeros else Weight(weight.values, torch.full_like(weight.zeros, DEFAULT_ZERO), weight.scales)
    )
    isa = hint if has_bfloat16(library) else "vec"

    def run() -> dict[str, torch.Tensor]:
        given = {"input": x, "q_weight": words(weight), "output": out, "scales": weight.scales, "zeros": zeros}
        given |= {"g_idx": None, "bias": bias, "pack_factor": 8, "isa_hint": isa}
        versions.call(library, "cpu_gemm_wna16", given)
        return {output: out}

    def expected() -> dict[str, Expected]:
        return {output: matmul.linear(x.double(), stands_for.double(), double(bias))}

    return Call(run, expected)


@cases(
    "cpu_gemm_wna16",
    deep={
        "rows": lambda st: st.integers(0, 100),
        "sizes": lambda st: st.tuples(multiples(st, 32), multiples(st, 64), st.sampled_from([2, 16, 32, 64])),
    },
    where=lambda dtype, with_zeros, bias, hint, **_: (
        (hint == "vec" or dtype is torch.bfloat16) and (with_zeros or not bias)
    ),
    dtype=DTYPES,
    rows=[0, 1, 7, 8, 9, 33],
    # Outputs, inputs, inputs with one scale.
    sizes=[(32, 32, 32), (64, 128, 2), (352, 192, 64), (32, 1024, 1024)],
    with_zeros=[False, True],
    bias=[False, True],
    hint=HINTS,
)
def cpu_gemm_wna16(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    rows: int,
    sizes: tuple[int, int, int],
    with_zeros: bool,
    bias: bool,
    hint: str,
) -> Call:
    """Scales that are powers of two: weights are exact. Rows of input and output are parts of wider ones."""
    outputs, inputs, _ = sizes
    x, out = draw.strided(draw.normal((rows, inputs), dtype)), draw.strided(draw.output((rows, outputs), dtype))
    weight = weight_of(draw, sizes, dtype, exact=True)
    b = draw.normal([outputs], dtype) if bias else None
    return product(library, x, weight, b, out, with_zeros=with_zeros, hint=hint, output="out")


@cases(
    "cpu_gemm_wna16",
    where=lambda dtype, hint, **_: hint == "vec" or dtype is torch.bfloat16,
    dtype=DTYPES,
    rows=[1, 9],
    # 128 inputs have a scale in most models; (64, 4096) are a part of Llama 3 8B.
    sizes=[(32, 64, 32), (160, 256, 128), (64, 4096, 128)],
    with_zeros=[False, True],
    hint=HINTS,
)
def cpu_gemm_wna16_any_scale(
    library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, sizes: tuple[int, int, int], with_zeros: bool, hint: str
) -> Call:
    """Scales as models have them: weights are rounded."""
    x, out = draw.normal((rows, sizes[1]), dtype), draw.output((rows, sizes[0]), dtype)
    weight = weight_of(draw, sizes, dtype)
    return product(library, x, weight, None, out, with_zeros=with_zeros, hint=hint, output="of_rounded")


@cases("cpu_gemm_wna16", dtype=DTYPES, rows=[4, 9])
def cpu_gemm_wna16_extreme(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int) -> Call:
    """A row each with one that is not a number, infinity, zeros, and -infinity; no weight is zero."""
    x = draw.normal((9, 64), dtype)
    x[0, 5], x[1, 7], x[2], x[8, 63] = torch.nan, torch.inf, 0, -torch.inf
    weight = weight_of(draw, (32, 64, 32), dtype, exact=True)
    weight = Weight(weight.values // 2 * 2, weight.zeros // 2 * 2 + 1, weight.scales)
    out = draw.output((rows, 32), dtype)
    return product(library, x[:rows], weight, None, out, with_zeros=True, hint="vec", output="out")


@cases(
    "cpu_gemm_wna16",
    wrong=["pack_factor", "hint", "48_outputs", "48_inputs", "x_type", "scales_type", "zeros_type", "bias_type"],
)
def cpu_gemm_wna16_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    outputs, inputs = 48 if wrong == "48_outputs" else 64, 48 if wrong == "48_inputs" else 64
    weight = weight_of(draw, (outputs, inputs, inputs), torch.bfloat16)
    x, out = draw.normal((2, inputs), torch.bfloat16), draw.output((2, outputs), torch.bfloat16)
    zeros = formats_int4.packed(weight.zeros)
    arguments = {"input": x, "q_weight": words(weight), "output": out, "scales": weight.scales, "zeros": zeros}
    arguments |= {"g_idx": None, "bias": None, "pack_factor": 8, "isa_hint": "vec"}
    arguments |= {
        "pack_factor": {"pack_factor": 4},
        "hint": {"isa_hint": "none"},
        "x_type": {"input": x.float()},
        "scales_type": {"scales": weight.scales.float()},
        "zeros_type": {"zeros": zeros.long()},
        "bias_type": {"bias": torch.ones(outputs)},
    }.get(wrong, {})
    return refused(lambda: versions.call(library, "cpu_gemm_wna16", arguments))
