"""Quantisation to 8 bits: x = scale (q - zero point) (Jacob et al. 2017, arXiv:1712.05877, eq. 1)."""

from __future__ import annotations

import torch

from harness.expected import Near

LOWEST, HIGHEST = -128, 127
# A result this far outside of 8 bits is limited to them whatever its rounding.
FAR_OUTSIDE = 1024.0


def quantise(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | float = 0.0) -> Near:
    """Return q = x / scale + zero point within 8 bits, before it is rounded (arXiv:1712.05877, eq. 1 and 12).

    Args:
        x: float64, (rows, n).
        scale: float64; one, or (rows, 1).
        zero_point: Integers, as many as scales.
    """
    offset = torch.as_tensor(zero_point, dtype=torch.float64)
    value = (x / scale + offset).clamp(LOWEST, HIGHEST)
    return Near(value, ((x / scale).abs() + offset.abs()).clamp(max=FAR_OUTSIDE))


def symmetric_scale(x: torch.Tensor) -> Near:
    """Return each row's largest absolute value as a part of 127; (rows, 1)."""
    return Near(x.abs().amax(-1, keepdim=True) / HIGHEST)


def range_scale(x: torch.Tensor) -> Near:
    """Return each row's range as a part of 255, the distance from the lowest q to the highest; (rows, 1)."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return Near((high - low) / (HIGHEST - LOWEST))


def range_zero_point(x: torch.Tensor) -> Near:
    """Return what takes each row's smallest value to the lowest q, before it is rounded; (rows, 1)."""
    part = x.amin(-1, keepdim=True) / range_scale(x).value
    return Near(LOWEST - part, part.abs() - LOWEST)
