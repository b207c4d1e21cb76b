"""Products with weights of 4 bits, of inputs that stay as they are or are quantised to int8."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from cases.matmul import TRUE, double, multiples, rows_of_sizes
from cases.matmul_int8 import SLACK
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected
from oracles import formats_int4, matmul
from oracles.quantisation import INT8

AWQ, GPTQ = 0, 1
METHODS = {"awq": AWQ, "gptq": GPTQ}


@dataclasses.dataclass(frozen=True)
class Weight:
    """A weight of 4 bits: values (inputs, outputs), and zeros and scales (groups, outputs)."""

    values: torch.Tensor
    zeros: torch.Tensor
    scales: torch.Tensor

    def double(self) -> torch.Tensor:
        """Return what it stands for, (outputs, inputs)."""
        return formats_int4.dequantised(self.values, self.zeros, self.scales).mT

    def words(self, method: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values and zeros as AutoAWQ or AutoGPTQ store them; the latter stores zeros less one."""
        if method == AWQ:
            return tuple(formats_int4.packed(part, formats_int4.AWQ_ORDER) for part in (self.values, self.zeros))
        return formats_int4.packed(self.values.mT).mT.contiguous(), formats_int4.packed(self.zeros - 1)


def weight_of(draw: Draw, sizes: tuple[int, ...], dtype: torch.dtype, *, exact: bool = False) -> Weight:
    """Draw a weight of (..., outputs, inputs, inputs with one scale); products of exact ones are not rounded."""
    *experts, outputs, inputs, group = sizes
    parameters = (*experts, inputs // group, outputs)
    scales = 2.0 ** draw.integers(parameters, -8, -4) if exact else draw.uniform(parameters, 2**-8, 2**-6)
    return Weight(draw.integers((*experts, inputs, outputs), 0, 16), draw.integers(parameters, 1, 16), scales.to(dtype))


def int8_product(library: Any, x: torch.Tensor, weight: Weight, bias: torch.Tensor | None, method: int) -> Call:
    """Pack the weight and multiply."""

    def run() -> dict[str, torch.Tensor]:
        values, zeros, scales = pack(library, weight, method)
        return {"out": library.int4_scaled_mm_cpu(x, values, zeros, scales, bias)}

    def expected() -> dict[str, Expected]:
        rounded = INT8.rounded(x, INT8.scales(x.double()))
        found = matmul.linear(rounded, weight.double(), double(bias))
        return {"out": dataclasses.replace(found, length=len(weight.scales))}

    return Call(run, expected)


@cases(
    "int4_scaled_mm_cpu",
    "convert_weight_packed_scale_zp",
    deep={
        "rows": lambda st: st.integers(1, 150),
        "sizes": lambda st: st.tuples(multiples(st, 32), multiples(st, 64), st.sampled_from([32, 64])),
    },
    where=lambda rows, method, **_: method == "awq" or rows in {1, 5},
    dtype=[torch.bfloat16, torch.float16],
    rows=[1, 2, 3, 4, 5, 50, 70, 130],
    # Outputs, inputs, inputs with one scale: groups of 32, 64 and 128, several blocks of 128, and all of a channel.
    sizes=[(32, 32, 32), (96, 192, 64), (64, 512, 128), (160, 768, 384)],
    bias=[False, True],
    method=list(METHODS),
)
def int4_scaled_mm(
    library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, sizes: tuple[int, int, int], bias: bool, method: str
) -> Call:
    """Rows of the input are parts of wider ones."""
    x = rows_of_sizes(draw, rows, sizes[1], dtype)
    x = draw.strided(INT8.unambiguous(x, INT8.scales(x.double()), SLACK))
    b = draw.normal(sizes[:1]) if bias else None
    return int8_product(library, x, weight_of(draw, sizes, dtype), b, METHODS[method])


@cases(
    "int4_scaled_mm_cpu",
    "convert_weight_packed_scale_zp",
    dtype=[torch.bfloat16, torch.float16],
    rows=[1, 4, 6],
    method=list(METHODS),
)
def int4_scaled_mm_quantises(library: Any, draw: Draw, *, dtype: torch.dtype, rows: int, method: str) -> Call:
    """The unit matrix, and scales that are powers of two, give the quantised input exactly."""
    x = draw.normal((rows, 64)).clamp(-3, 3) * 40
    x[:, 17] = -127
    scale = 2.0 ** torch.arange(rows)
    x = INT8.unambiguous((x * scale[:, None]).to(dtype), scale.double(), SLACK)
    zeros = draw.integers((2, 64), 1, 15)
    values = zeros.repeat_interleave(32, 0) + torch.eye(64, dtype=torch.int64)
    weight = Weight(values, zeros, torch.ones(2, 64, dtype=dtype))
    call = int8_product(library, x, weight, None, METHODS[method])
    return Call(call.run, lambda: {"out": Exact(INT8.rounded(x, scale.double()).to(dtype))})


@cases(
    "convert_weight_packed_scale_zp",
    sizes=[(32, 32, 32), (96, 128, 64), (32, 512, 256), (3, 64, 96, 32)],
    dtype=[torch.bfloat16, torch.float16, torch.float32],
)
def convert_weight_packed_scale_zp(library: Any, draw: Draw, *, sizes: tuple[int, ...], dtype: torch.dtype) -> Call:
    """One weight gives the same from either format, and zeros and scales are moved."""
    weight = weight_of(draw, sizes, dtype)

    def run() -> dict[str, torch.Tensor]:
        _, zeros, scales = packed = pack(library, weight, AWQ)
        return {
            "same": torch.tensor(same_tensors(packed, pack(library, weight, GPTQ))),
            "zeros": zeros.flatten().sort().values,
            "scales": scales.flatten().sort().values,
        }

    def expected() -> dict[str, Expected]:
        return {
            "same": TRUE,
            "zeros": Exact(weight.zeros.to(torch.int8).flatten().sort().values),
            "scales": Exact(weight.scales.float().flatten().sort().values),
        }

    return Call(run, expected)


@cases("convert_weight_packed_scale_zp", method=list(METHODS))
def convert_weight_packed_scale_zp_experts(library: Any, draw: Draw, *, method: str) -> Call:
    """The weights of several experts are packed one by one."""
    weight = weight_of(draw, (3, 64, 96, 32), torch.bfloat16)

    def run() -> dict[str, torch.Tensor]:
        parts = zip(weight.values, weight.zeros, weight.scales, strict=True)
        apart = [pack(library, Weight(*part), METHODS[method]) for part in parts]
        together = pack(library, weight, METHODS[method])
        return {"same": torch.tensor(same_tensors(together, [torch.stack(part) for part in zip(*apart, strict=True)]))}

    return Call(run, lambda: {"same": TRUE})


def pack(library: Any, weight: Weight, method: int) -> tuple[torch.Tensor, ...]:
    return library.convert_weight_packed_scale_zp(*weight.words(method), weight.scales, method)


def same_tensors(some: Any, others: Any) -> bool:
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


@cases("convert_weight_packed_scale_zp", wrong=["method", "int64", "40_outputs"])
def convert_weight_packed_scale_zp_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    weight = weight_of(draw, (40 if wrong == "40_outputs" else 32, 64, 32), torch.bfloat16)
    values, zeros = weight.words(GPTQ)
    if wrong == "int64":
        values, zeros = values.long(), zeros.long()
    method = 2 if wrong == "method" else GPTQ
    return refused(lambda: library.convert_weight_packed_scale_zp(values, zeros, weight.scales, method))


@cases("int4_scaled_mm_cpu", "convert_weight_packed_scale_zp", wrong=["x_type", "bias_type", "scales_type", "outputs"])
def int4_scaled_mm_unsupported(library: Any, draw: Draw, *, wrong: str) -> Call:
    weight = weight_of(draw, (64, 64, 32), torch.bfloat16)
    values, zeros, scales = pack(library, weight, AWQ)
    arguments = {"x": draw.normal((2, 64), torch.bfloat16), "w": values, "w_zeros": zeros, "w_scales": scales}
    arguments |= {
        "x_type": {"x": draw.normal((2, 64))},
        "bias_type": {"bias": torch.ones(64).bfloat16()},
        "scales_type": {"w_scales": scales.bfloat16()},
        "outputs": {"w_scales": scales[:1]},
    }[wrong]
    return refused(lambda: library.int4_scaled_mm_cpu(**({"bias": None} | arguments)))
