"""Quantisation to 8-bit floating point: q = x / s, stored with saturation (OFP8 v1.0, section 5.2.1)."""

from __future__ import annotations

import torch

from harness.expected import Near

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
"""The largest numbers of both formats (OFP8 v1.0, table 1)."""


def quantise(x: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> Near:
    """Return x / scale within the format's range, before it is rounded; what is not a number stays so.

    Args:
        x: float64, (rows, n).
        scales: float64; what ``x`` can be divided by.
        dtype: The format.
    """
    return Near((x / scales).clamp(-LARGEST[dtype], LARGEST[dtype]))


def wide(scales: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Return the scale of each element.

    Args:
        scales: (groups of rows, groups of columns), for groups of equal sizes.
        shape: Rows and columns.
    """
    rows, columns = (whole // groups for whole, groups in zip(shape, scales.shape, strict=True))
    return scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)


def row_scales(x: torch.Tensor, dtype: torch.dtype, bound: float | None, least: float) -> torch.Tensor:
    """Return scales that map each row's largest absolute value to the format's; (rows, 1).

    Args:
        x: float64, (rows, n). What is not a number does not count.
        dtype: The format.
        bound: Of the largest absolute value, if there is one.
        least: The least scale.
    """
    top = x.abs().nan_to_num(nan=0.0, posinf=torch.inf).amax(-1, keepdim=True)
    top = top if bound is None else top.clamp(max=bound)
    return (top / LARGEST[dtype]).clamp(min=least)


def ties(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the middles of all neighbours, float64, and what they become: the neighbour with the even code."""
    codes = torch.arange(256, dtype=torch.uint8)
    values = codes.view(dtype).double()
    positive = codes[(codes < 128) & values.isfinite()]
    low, high = positive[:-1], positive[1:]
    middles = (low.view(dtype).double() + high.view(dtype).double()) / 2
    even = torch.where(low % 2 == 0, low, high)
    return torch.cat([middles, -middles]), torch.cat([even, even + 128]).view(dtype)


def exact_ties(dtype: torch.dtype, given: torch.dtype, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return those middles, times a scale, that another type has, in that type, and what they become.

    Args:
        dtype: The format.
        given: The other type.
        scale: A power of two.
    """
    middles, even = ties(dtype)
    x = (middles * scale).to(given)
    there = x.double() == middles * scale
    return x[there], even[there]
