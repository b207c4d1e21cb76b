"""Caches of 8-bit floats with scales that are powers of two, and where their blocks keep each token.

Elements are E4M3 of OCP 8-bit Floating Point (OFP8) v1.0: three bits of mantissa, the largest number 448, the smallest
normal one 2^-6. A scale byte is E8M0 of OCP Microscaling Formats (MX) v1.0: two to the power of the byte less 127.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness.expected import Judged, Near

LARGEST = 448.0
SMALLEST_NORMAL = 2.0**-6
BFLOAT16 = 2.0**-8
"""How much rounding to bfloat16 before may change a value, relative to it."""
TILE = 64
"""Elements that share a scale in the fp8_ds_mla layout."""
ROTATED = 64
"""Components of a token that are rotated."""


def e8m0(exponents: torch.Tensor) -> torch.Tensor:
    """Return the scales that bytes stand for; float64."""
    return torch.exp2(exponents.double() - 127)


def scale_for(largest: torch.Tensor, floor: float) -> torch.Tensor:
    """Return the smallest power of two with which a value fits in E4M3, not below ``floor``."""
    return torch.exp2(torch.ceil(torch.log2((largest / LARGEST).clamp(min=floor))))


def fits(largest: torch.Tensor, floor: float, slack: float = BFLOAT16) -> Judged:
    """Expect the scales of ``scale_for``, up to a change of the largest value by ``slack``.

    Args:
        largest: float64, the largest absolute value of each block.
        floor: As of ``scale_for``.
        slack: Relative; 0 if the kernel has the very same values.
    """
    needed = (largest / LARGEST).clamp(min=floor)

    def judge(scale: torch.Tensor) -> str:
        if scale.shape != needed.shape:
            return f"the scales have the shape {list(scale.shape)} instead of {list(needed.shape)}"
        mantissa, _ = torch.frexp(scale.double())
        wrong = (mantissa != 0.5) | (scale < needed * (1 - slack)) | (scale >= 2 * needed * (1 + slack))
        if not bool(wrong.any()):
            return ""
        at = tuple(int(index) for index in wrong.nonzero()[0])
        return (
            f"{int(wrong.sum())} scales are wrong; the first at {list(at)}: {scale[at]:.9g}, needed is {needed[at]:.9g}"
        )

    return Judged(judge)


def dequantised(value: torch.Tensor, floor: float, *, flushed: bool = False) -> Near:
    """Expect what is read back of values that were scaled by blocks and rounded to E4M3.

    Args:
        value: float64, (..., elements of a block).
        floor: As of ``scale_for``.
        flushed: Whether what would be subnormal may become zero.

    The magnitude is what E4M3's unit roundoff is relative to: the power of two at or below the value, or the smallest
    normal number, below which numbers lie evenly. A flushed value loses 16 unit roundoffs of itself, which is all.
    """
    size = value.abs()
    smallest = SMALLEST_NORMAL * scale_for(size.amax(-1, keepdim=True) * (1 + BFLOAT16), floor)
    _, exponent = torch.frexp(size.maximum(smallest))
    magnitude = torch.exp2(exponent.double() - 1)
    if flushed:
        magnitude = torch.where(size < smallest * (1 + BFLOAT16), torch.maximum(16 * size, magnitude), magnitude)
    return Near(value, magnitude)


@dataclass(frozen=True)
class Layout:
    """Blocks of a paged cache: the data of all their tokens, then the scales of all.

    Attributes:
        data: Bytes of a token's data.
        scales: Bytes of its scales.
    """

    data: int
    scales: int

    def block(self, tokens: int) -> int:
        """Return the bytes of a block of so many tokens."""
        return tokens * (self.data + self.scales)

    def read(self, cache: torch.Tensor, slots: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the bytes of slots: (slots, data) and (slots, scales)."""
        rows, data, scales = self._places(slots, tokens)
        return cache[rows, data], cache[rows, scales]

    def write(
        self,
        cache: torch.Tensor,
        slots: torch.Tensor,
        tokens: int,
        data: torch.Tensor | int,
        scales: torch.Tensor | int,
    ) -> torch.Tensor:
        """Set the bytes of slots, and return the cache."""
        rows, data_places, scale_places = self._places(slots, tokens)
        cache[rows, data_places] = torch.as_tensor(data, dtype=torch.uint8)
        cache[rows, scale_places] = torch.as_tensor(scales, dtype=torch.uint8)
        return cache

    def _places(self, slots: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        within = (slots % tokens)[:, None]
        data = within * self.data + torch.arange(self.data)
        scales = tokens * self.data + within * self.scales + torch.arange(self.scales)
        return (slots // tokens)[:, None], data, scales


INDEXER = Layout(data=128, scales=4)
"""Keys of the indexer: 128 elements of E4M3, and one scale in float32."""


def fp8_ds_mla(plain: int = 448) -> Layout:
    """Return the layout of latent vectors: elements of E4M3, rotated ones in bfloat16; scales in E8M0, and a byte."""
    return Layout(data=plain + 2 * ROTATED, scales=plain // TILE + 1)


@dataclass(frozen=True)
class Latents:
    """What slots of the fp8_ds_mla layout hold.

    Attributes:
        plain: float64, (slots, tiles, 64): the elements times their scales.
        scales: float64, (slots, tiles).
        rotated: bfloat16, (slots, 64).
    """

    plain: torch.Tensor
    scales: torch.Tensor
    rotated: torch.Tensor


def read_latents(cache: torch.Tensor, slots: torch.Tensor, tokens: int, plain: int = 448) -> Latents:
    """Decode slots of the fp8_ds_mla layout."""
    data, exponents = fp8_ds_mla(plain).read(cache, slots, tokens)
    scales = e8m0(exponents[:, :-1])
    elements = data[:, :plain].contiguous().view(torch.float8_e4m3fn).double().unflatten(-1, (-1, TILE))
    return Latents(elements * scales[..., None], scales, data[:, plain:].contiguous().view(torch.bfloat16))


def read_index_keys(cache: torch.Tensor, slots: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Decode slots of the indexer's layout: float64 elements times their scale, (slots, 128), and the scales."""
    data, scales = INDEXER.read(cache, slots, tokens)
    scale = scales.contiguous().view(torch.float32).double()
    return data.contiguous().view(torch.float8_e4m3fn).double() * scale, scale[:, 0]
