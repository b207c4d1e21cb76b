"""Quantised weights of experts, and inputs that are quantised on the way; all decoded to float64."""

from __future__ import annotations

import torch

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
"""The positive values of 4-bit floating point (OCP Microscaling Formats v1.0, 5.3.3)."""


def channels(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Integers with one scale for each output.

    Args:
        codes: (experts, outputs, inputs).
        scales: (experts, outputs).
    """
    return codes.double() * scales.double()[..., None]


def blocks(codes: torch.Tensor, scales: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """8-bit floating point (OFP8 v1.0) with one scale for each block; those at the ends may be smaller.

    Args:
        codes: (experts, outputs, inputs).
        scales: (experts, blocks of outputs, blocks of inputs).
        size: Outputs and inputs of a block.
    """
    wide = scales.double().repeat_interleave(size[0], 1).repeat_interleave(size[1], 2)
    return codes.double() * wide[:, : codes.shape[1], : codes.shape[2]]


def microscaled(pairs: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    """MXFP4: E2M1 elements with an E8M0 scale for 32 of them (OCP Microscaling Formats v1.0, 5.4.1 and 5.2).

    Args:
        pairs: uint8, (experts, outputs, inputs / 2): the first of two elements is the lower half.
        exponents: uint8, (experts, outputs, inputs / 32): of 2, with a bias of 127.
    """
    codes = torch.stack([pairs & 15, pairs >> 4], -1).flatten(-2).long()
    values = torch.where(codes < 8, 1.0, -1.0) * E2M1[codes % 8]
    return values * (2.0 ** (exponents.double() - 127)).repeat_interleave(32, -1)


def groups(codes: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """(code - zero) * scale, with a zero and a scale for each group of inputs.

    Args:
        codes: (experts, inputs, outputs).
        zeros: (experts, groups, outputs).
        scales: (experts, groups, outputs).

    Returns:
        float64, (experts, outputs, inputs).
    """
    size = codes.shape[1] // zeros.shape[1]
    zeros, scales = (part.double().repeat_interleave(size, 1) for part in (zeros, scales))
    return ((codes.double() - zeros) * scales).transpose(1, 2)


def rows_int8(x: torch.Tensor) -> torch.Tensor:
    """Round each row to multiples of its largest absolute value / 127.

    Args:
        x: float64, (rows, columns).
    """
    step = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (x / step).round() * step


def int8_step(x: torch.Tensor) -> torch.Tensor:
    """Half a step of ``rows_int8``, over bfloat16's unit roundoff of 2^-8."""
    return (x.abs().amax(-1, keepdim=True) / 254 * 2**8).expand_as(x)


def range_step(x: torch.Tensor) -> torch.Tensor:
    """Half a step when each row's range, 0 included, has 255 steps, over bfloat16's unit roundoff of 2^-8."""
    width = x.amax(-1, keepdim=True).clamp(min=0) - x.amin(-1, keepdim=True).clamp(max=0)
    return (width / 510 * 2**8).expand_as(x)
