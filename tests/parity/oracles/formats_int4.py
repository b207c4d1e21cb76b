"""Integers of 4 bits, eight in a word of 32 bits, and what they stand for."""

from __future__ import annotations

import torch

IN_ORDER = (0, 1, 2, 3, 4, 5, 6, 7)
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Which nibble, from the lowest, holds each of eight columns in AWQ's format (Lin et al. 2023, arXiv:2306.00978)."""


def packed(values: torch.Tensor, order: tuple[int, ...] = IN_ORDER) -> torch.Tensor:
    """Return words that hold eight neighbours of the last dimension each.

    Args:
        values: Integers from 0 to 15, (..., 8 n).
        order: The nibble of each of the eight.

    Returns:
        int32, (..., n).
    """
    shifts = 4 * torch.tensor(order)
    words = (values.long().unflatten(-1, (-1, 8)) << shifts).sum(-1)
    return torch.where(words < 2**31, words, words - 2**32).to(torch.int32)


def dequantised(values: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """(q - z) s, with a zero z and a scale s for each group of rows (Jacob et al. 2017, arXiv:1712.05877, eq. 1).

    Args:
        values: (..., k, n).
        zeros: (..., groups, n).
        scales: (..., groups, n).

    Returns:
        float64, (..., k, n).
    """
    group = values.shape[-2] // scales.shape[-2]
    return (values.double() - _repeated(zeros, group)) * _repeated(scales, group)


def _repeated(parameters: torch.Tensor, group: int) -> torch.Tensor:
    return parameters.double().repeat_interleave(group, dim=-2)
