"""Hyper-connections: a residual of several streams, mixed by gates that depend on it.

All take and return float64. Source: Xie et al. 2025, mHC: Manifold-Constrained Hyper-Connections (arXiv:2512.24880),
section 4, with the epsilons of the operators' schemas.

Rounding errors of a logit pass through what is computed of it, so that a gate's magnitude is its derivative times the
logit's magnitude, and the gate itself.
"""

from __future__ import annotations

import torch

from harness.expected import Near


def logits(
    streams: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, base: torch.Tensor, epsilon: float
) -> Near:
    """Return scale (W x') + base, where x' is the RMS norm of all streams as one vector.

    Args:
        streams: (tokens, streams, width).
        weight: (logits, streams * width).
        scale: (logits,) or (1,).
        base: (logits,).
        epsilon: Added to the mean square.
    """
    x = streams.flatten(1)
    factor = torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * scale
    return Near(x @ weight.T * factor + base, x.abs() @ weight.abs().T * factor.abs() + base.abs())


def gates(logit: Near, factor: float = 1.0, epsilon: float = 0.0) -> Near:
    """Return factor * sigmoid(logit) + epsilon."""
    assert logit.magnitude is not None
    value = factor * torch.sigmoid(logit.value)
    return Near(value + epsilon, value * torch.sigmoid(-logit.value) * logit.magnitude + value + epsilon)


def read(gate: Near, streams: torch.Tensor) -> Near:
    """Return the sum of the streams, weighted by their gates: (tokens, width)."""
    assert gate.magnitude is not None
    value = (gate.value[..., None] * streams).sum(1)
    return Near(value, (gate.magnitude[..., None] * streams.abs()).sum(1))


def doubly_stochastic(logit: Near, iterations: int, epsilon: float) -> Near:
    """Project matrices on the doubly stochastic ones: softmax of rows, then columns and rows are normalised in turn.

    Source: Sinkhorn & Knopp 1967. An iteration begins with the rows and ends with the columns; the first one's rows
    are the softmax. Relative errors do not grow beyond twice the largest of the logits' absolute errors, as each
    normalisation divides by weighted means of what is normalised.

    Args:
        logit: (tokens, streams, streams).
        iterations: At least 1.
        epsilon: Added to the softmax, and to each later sum.
    """
    assert logit.magnitude is not None
    matrix = torch.softmax(logit.value, -1) + epsilon
    matrix = matrix / (matrix.sum(-2, keepdim=True) + epsilon)
    for _ in range(iterations - 1):
        matrix = matrix / (matrix.sum(-1, keepdim=True) + epsilon)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + epsilon)
    below_largest = logit.value.amax(-1, keepdim=True) - logit.value
    worst = (logit.magnitude + below_largest).amax((-2, -1), keepdim=True)
    return Near(matrix, matrix * (1 + worst))


def write(x: torch.Tensor, streams: torch.Tensor, post: torch.Tensor, mixing: torch.Tensor) -> Near:
    """Return post_j x + sum over i of mixing_ij stream_i, for each stream j.

    Args:
        x: What the layer gave, (tokens, width).
        streams: (tokens, streams, width).
        post: (tokens, streams).
        mixing: (tokens, streams, streams).
    """

    def total(gate: torch.Tensor, one: torch.Tensor, matrix: torch.Tensor, many: torch.Tensor) -> torch.Tensor:
        return gate[..., None] * one[:, None] + matrix.transpose(-1, -2) @ many

    magnitude = total(post.abs(), x.abs(), mixing.abs(), streams.abs())
    return Near(total(post, x, mixing, streams), magnitude)
