"""Normalisations over the last dimension."""

from __future__ import annotations

import torch

from harness.expected import Near


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, epsilon: float) -> Near:
    """x / sqrt(mean(x^2) + epsilon) * weight (Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4).

    Args:
        x: float64, (..., n).
        weight: float64, (n,), or None for ones.
        epsilon: Added to the mean square.

    The mean has only positive terms, so its relative error is what adding n of them gives.
    """
    value = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
    return Near(value if weight is None else value * weight, length=x.shape[-1])
