"""Rotary position embedding."""

from __future__ import annotations

from functools import cache

import torch

from harness.expected import Near


@cache
def cos_sin_table(positions: int, size: int, base: float = 10000.0) -> torch.Tensor:
    """Return cosines and, beside them, sines of position * base^(-2 i / size) (Su et al. 2021, arXiv:2104.09864).

    Returns:
        float64, (positions, size): the cosines of all size / 2 angles, then their sines. Many cases have the same
        tensor, so a kernel gets a copy.
    """
    angles = torch.arange(positions).double()[:, None] * base ** (-torch.arange(0, size, 2).double() / size)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def rotate(x: torch.Tensor, table: torch.Tensor, *, neox: bool, inverse: bool = False) -> Near:
    """Turn pairs of components by an angle (Su et al. 2021, arXiv:2104.09864, eq. 34).

    Args:
        x: float64, (tokens, heads, head size). Components behind the rotated ones are kept.
        table: float64, (tokens, rotated components): each token's cosines, then sines.
        neox: Whether component i is paired with i + half of the rotated ones, as in GPT-NeoX, else 2 i with 2 i + 1,
            as in GPT-J.
        inverse: Whether to turn back.
    """
    size = table.shape[-1]
    cos, sin = (part[:, None] for part in table.chunk(2, dim=-1))
    if inverse:
        sin = -sin
    turned, kept = x[..., :size], x[..., size:]
    first, second = turned.chunk(2, dim=-1) if neox else (turned[..., 0::2], turned[..., 1::2])

    def joined(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        pairs = torch.cat([one, other], -1) if neox else torch.stack([one, other], -1).flatten(-2)
        return torch.cat([pairs, kept], dim=-1)

    value = joined(first * cos - second * sin, second * cos + first * sin)
    magnitude = joined((first * cos).abs() + (second * sin).abs(), (second * cos).abs() + (first * sin).abs())
    return Near(value, magnitude.abs())
