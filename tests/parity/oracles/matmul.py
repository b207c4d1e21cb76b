"""Products of matrices."""

from __future__ import annotations

import torch

from harness.expected import Near


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Near:
    """x W^T + b (the operators' schemas).

    Args:
        x: float64, (..., m, k).
        weight: float64, (..., n, k).
        bias: float64, (n,), or None for zeros.

    The magnitude is the root of the sum of the terms' squares. For terms of random sign, as cases draw them, that is
    how large the sums on the way are, whatever the order, and rounding errors are relative to those (Higham & Mary
    2020, Sharper Probabilistic Backward Error Analysis, section 3: data of mean zero).
    """
    value = x @ weight.mT
    squares = x.square() @ weight.square().mT
    if bias is not None:
        value, squares = value + bias, squares + bias.square()
    return Near(value, squares.sqrt(), length=x.shape[-1])


def linear_of_integers(
    x: torch.Tensor,
    x_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> Near:
    """(x W^T) s t^T + b, where the integers' sums are exact (the operators' schemas).

    Args:
        x: float64 integers, (m, k).
        x_scale: float64, (m,): s.
        weight: float64 integers, (n, k).
        weight_scale: float64, (n,): t.
        bias: float64, (n,), or None for zeros.
    """
    product = (x @ weight.mT) * x_scale[:, None] * weight_scale
    if bias is None:
        return Near(product)
    return Near(product + bias, product.abs() + bias.abs())
