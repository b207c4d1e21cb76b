"""The 8-bit floating point format E4M3 (OCP 8-bit Floating Point Specification (OFP8) v1.0, section 5)."""

from __future__ import annotations

import torch

LARGEST = 448.0
_MANTISSA_BITS = 3
_LEAST_EXPONENT = -6


def nearest(value: torch.Tensor) -> torch.Tensor:
    """Return the nearest numbers of the format, half to even, and the largest one for what is above it (saturation).

    Args:
        value: float64; not a number is not allowed.
    """
    _, exponent = torch.frexp(value.clamp(-LARGEST, LARGEST))
    step = torch.ldexp(torch.ones_like(value), (exponent - 1).clamp(min=_LEAST_EXPONENT) - _MANTISSA_BITS)
    return (torch.round(value / step) * step).clamp(-LARGEST, LARGEST)


def finite(number: torch.Tensor) -> torch.Tensor:
    """Return the finite number of each of the 254 codes that stand for one.

    Args:
        number: Integers from 0 to 253: first the positive ones in ascending order from 0, then the negative ones.
    """
    code = torch.where(number < 127, number, number + 1)  # 0x7f and 0xff are not a number
    return code.to(torch.uint8).view(torch.float8_e4m3fn)


def normal(sign: torch.Tensor, exponent: torch.Tensor, mantissa: torch.Tensor) -> torch.Tensor:
    """Return (-1)^sign 2^exponent (1 + mantissa / 8), for exponents from -6 to 8."""
    code = sign << 7 | exponent - _LEAST_EXPONENT + 1 << _MANTISSA_BITS | mantissa
    return code.to(torch.uint8).view(torch.float8_e4m3fn)
