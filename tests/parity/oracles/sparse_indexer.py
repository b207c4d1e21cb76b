"""The indexer that chooses which vectors attention reads (DeepSeek-AI 2025, DeepSeek-V3.2, arXiv:2512.02556, 2.1)."""

from __future__ import annotations

import torch

from harness.expected import Near


def scores(query: torch.Tensor, keys: torch.Tensor, weight: torch.Tensor) -> Near:
    """Return the sum over heads of weight * max(q k, 0) for each key (eq. 1).

    Args:
        query: float64, (heads, size).
        keys: float64, (keys, size).
        weight: float64, (heads,).
    """
    products = (keys @ query.T).clamp(min=0)
    return Near(products @ weight, (keys.abs() @ query.abs().T) @ weight.abs())


def largest(score: torch.Tensor, count: int) -> torch.Tensor:
    """Return where the ``count`` largest of distinct scores are, or all if there are fewer; ascending."""
    return score.argsort(descending=True)[:count].sort().values
