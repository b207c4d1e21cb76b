"""Packing weights and scales for products: what has to hold in any layout."""

from __future__ import annotations

from typing import Any

import torch

from cases.matmul import TRUE
from harness.case import Call, cases, refused
from harness.compare import bits
from harness.draw import Draw
from harness.expected import Exact
from oracles import packing

DIGITS = {torch.bfloat16: 2**16, torch.float16: 2**16, torch.float8_e4m3fn: 2**8, torch.uint8: 2**4}
"""How many values an element has; uint8 holds two of 4 bits."""


@cases(
    "convert_weight_packed",
    where=lambda dtype, shape: shape[-2] % 32 == 0 or dtype is not torch.uint8,
    dtype=list(DIGITS),
    shape=[(16, 32), (32, 32), (48, 64), (96, 160), (3, 64, 96)],
)
def convert_weight_packed(library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, ...]) -> Call:  # noqa: ARG001
    """Packing moves elements; two of 4 bits in a byte may part."""
    count = torch.Size(shape).numel()

    def pack(digits: torch.Tensor) -> torch.Tensor:
        return as_digits(library.convert_weight_packed(from_digits(digits.reshape(shape), dtype)))

    return Call(
        lambda: {"places": packing.sources(pack, count, DIGITS[dtype]).sort().values},
        lambda: {"places": Exact(torch.arange(count))},
    )


@cases("convert_weight_packed", dtype=[torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int8, torch.uint8])
def convert_weight_packed_experts(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
    """The weights of several experts are packed one by one."""
    weight = draw.integers((3, 64, 64 * dtype.itemsize), 0, 256).to(torch.uint8).view(dtype)

    def run() -> dict[str, torch.Tensor]:
        together = library.convert_weight_packed(weight)
        apart = torch.stack([library.convert_weight_packed(each) for each in weight])
        return {"same": torch.tensor(together.dtype == dtype and torch.equal(bits(together), bits(apart)))}

    return Call(run, lambda: {"same": TRUE})


# Packing refuses sizes that are not made of tiles of 16 by 32 (by 64 for int8), and other types.
UNPACKABLE = {
    "1d": ((64,), torch.bfloat16),
    "4d": ((1, 1, 32, 32), torch.bfloat16),
    "24_outputs": ((24, 32), torch.bfloat16),
    "48_inputs": ((32, 48), torch.bfloat16),
    "8_outputs_of_experts": ((2, 8, 32), torch.bfloat16),
    "48_outputs_int8": ((48, 32), torch.int8),
    "16_inputs_uint8": ((32, 8), torch.uint8),
    "float32": ((32, 32), torch.float32),
    "float8_e5m2": ((32, 32), torch.float8_e5m2),
}


@cases("convert_weight_packed", weight=list(UNPACKABLE))
def convert_weight_packed_unsupported(library: Any, draw: Draw, *, weight: str) -> Call:
    shape, dtype = UNPACKABLE[weight]
    return refused(lambda: library.convert_weight_packed(draw.integers(shape, 0, 8).to(dtype)))


@cases("convert_weight_packed")
def convert_weight_packed_transposed(library: Any, draw: Draw) -> Call:
    weight = draw.normal((64, 32), torch.bfloat16).t()
    return refused(lambda: library.convert_weight_packed(weight))


@cases("convert_scale_packed", shape=[(32, 1), (64, 3), (96, 16), (3, 64, 5)])
def convert_scale_packed(library: Any, draw: Draw, *, shape: tuple[int, ...]) -> Call:  # noqa: ARG001
    count = torch.Size(shape).numel()

    def pack(digits: torch.Tensor) -> torch.Tensor:
        scales = library.convert_scale_packed(digits.reshape(shape).to(torch.uint8))
        assert scales.shape == shape
        return scales.long().flatten()

    return Call(
        lambda: {"places": packing.sources(pack, count, 2**8).sort().values},
        lambda: {"places": Exact(torch.arange(count))},
    )


@cases("convert_scale_packed")
def convert_scale_packed_experts(library: Any, draw: Draw) -> Call:
    scales = draw.integers((3, 64, 5), 0, 256, torch.uint8)

    def run() -> dict[str, torch.Tensor]:
        apart = [library.convert_scale_packed(each) for each in scales]
        return {"same": torch.tensor(torch.equal(library.convert_scale_packed(scales), torch.stack(apart)))}

    return Call(run, lambda: {"same": TRUE})


UNPACKABLE_SCALES = {
    "1d": ((64,), torch.uint8),
    "4d": ((1, 1, 32, 2), torch.uint8),
    "48_outputs": ((48, 2), torch.uint8),
    "int8": ((32, 2), torch.int8),
}


@cases("convert_scale_packed", scale=list(UNPACKABLE_SCALES))
def convert_scale_packed_unsupported(library: Any, draw: Draw, *, scale: str) -> Call:
    shape, dtype = UNPACKABLE_SCALES[scale]
    return refused(lambda: library.convert_scale_packed(draw.integers(shape, 0, 8).to(dtype)))


def from_digits(digits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return elements with these bits; for uint8 two in each, the first in the lower half."""
    if dtype is torch.uint8:
        return (digits[..., 0::2] | digits[..., 1::2] << 4).to(torch.uint8)
    return digits.to(torch.int16 if dtype.itemsize == 2 else torch.uint8).view(dtype)


def as_digits(elements: torch.Tensor) -> torch.Tensor:
    """Return the bits of elements, flat."""
    if elements.dtype is torch.uint8:
        return torch.stack([elements & 15, elements >> 4], -1).long().flatten()
    whole = elements.view(torch.int16 if elements.itemsize == 2 else torch.uint8).long().flatten()
    return whole % 2 ** (8 * elements.itemsize)
