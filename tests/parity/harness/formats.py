"""Number formats: how far apart neighbouring values are, and what rounding to them can change."""

from __future__ import annotations

import torch

FLOATS = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}
"""Names that limits count roundings in."""


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return u, the largest relative error of rounding to nearest (Higham 2002, Accuracy and Stability, 2.1)."""
    return torch.finfo(dtype).eps / 2


def name_of(dtype: torch.dtype) -> str:
    """Return ``bfloat16`` for ``torch.bfloat16``."""
    return str(dtype).removeprefix("torch.")


def ulp(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the distance between neighbours of ``dtype`` at each value; 1 for integers.

    Args:
        value: float64, of any shape; finite.
        dtype: The format.

    Returns:
        float64, of the same shape. Below the smallest normal number it is the distance between subnormals.
    """
    if not dtype.is_floating_point:
        return torch.ones_like(value)
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(value.abs().clamp(min=info.tiny, max=info.max))
    return torch.ldexp(torch.full_like(value, info.eps), exponent - 1)


def lowest(dtype: torch.dtype) -> float:
    """Return the lowest finite number of a format."""
    return float(torch.finfo(dtype).min if dtype.is_floating_point else torch.iinfo(dtype).min)


def largest(dtype: torch.dtype) -> float:
    """Return the largest finite number of a format."""
    return float(torch.finfo(dtype).max if dtype.is_floating_point else torch.iinfo(dtype).max)
