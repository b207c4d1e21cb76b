"""Queries, keys and values of DeepSeek V4's attention, before they are cached.

All take and return float64. What is rotated are the last components, in pairs of neighbours (Su et al. 2021,
arXiv:2104.09864, eq. 34).
"""

from __future__ import annotations

import torch

from harness.expected import Near
from oracles import norms, rotary


def rotate_last(x: Near, table: torch.Tensor, *, inverse: bool = False) -> Near:
    """Rotate the last components of each head.

    Args:
        x: (tokens, heads, head size).
        table: (tokens, rotated components): each token's cosines, then sines.
        inverse: Whether to turn back.
    """
    size = table.shape[-1]
    turned = rotary.rotate(x.value[..., -size:], table, neox=False, inverse=inverse)
    bound = rotary.rotate(x.relative_to[..., -size:], table.abs(), neox=False)
    assert bound.magnitude is not None
    return Near(
        torch.cat([x.value[..., :-size], turned.value], -1),
        torch.cat([x.relative_to[..., :-size], bound.magnitude], -1),
        x.length,
    )


def query(q: torch.Tensor, table: torch.Tensor, epsilon: float) -> Near:
    """Return each head's RMS norm without a weight, rotated."""
    return rotate_last(norms.rms_norm(q, None, epsilon), table)


def pool(state: torch.Tensor, slots: torch.Tensor, ratio: int, size: int) -> Near:
    """Return averages of the vectors in windows, weighted for each component by the softmax of its scores.

    Source: the schemas of the operators that compress. A slot holds vectors and then scores, each of ``size``
    components for windows in which it is among the first ``ratio``, and where windows overlap as many for those in
    which it is among the second.

    Args:
        state: (slots, 2 * width).
        slots: (windows, window); those below 0 count as absent.
        ratio: Positions between windows.
        size: Components of a vector.
    """
    window = torch.arange(slots.shape[1])
    components = (window >= ratio).long()[:, None] * size + torch.arange(size)
    vectors, scores = (
        part.gather(-1, components.expand(len(slots), -1, -1)) for part in state[slots.clamp(min=0)].chunk(2, -1)
    )
    weights = torch.softmax(scores.masked_fill((slots < 0)[..., None], -torch.inf), 1)
    return Near((weights * vectors).sum(1), (weights * vectors.abs()).sum(1), slots.shape[1])


def compress(
    state: torch.Tensor,
    slots: torch.Tensor,
    positions: torch.Tensor,
    ratio: int,
    weight: torch.Tensor,
    epsilon: float,
    table: torch.Tensor,
) -> Near:
    """Pool windows, normalise the averages, and rotate them to where their windows' newest ``ratio`` positions begin.

    Args:
        state: As of ``pool``.
        slots: As of ``pool``.
        positions: (windows,), each window's last position.
        ratio: As of ``pool``.
        weight: (size,), of the RMS norm.
        epsilon: Of the RMS norm.
        table: (positions, rotated components): cosines, then sines.
    """
    pooled = pool(state, slots, ratio, len(weight))
    assert pooled.magnitude is not None
    factor = torch.rsqrt(pooled.value.square().mean(-1, keepdim=True) + epsilon) * weight
    normed = Near((pooled.value * factor)[:, None], (pooled.magnitude * factor.abs())[:, None], pooled.length)
    turned = rotate_last(normed, table[positions // ratio * ratio])
    assert turned.magnitude is not None
    return Near(turned.value[:, 0], turned.magnitude[:, 0], turned.length)
