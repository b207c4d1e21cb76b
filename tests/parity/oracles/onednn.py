"""Products of matrices, of floating point numbers and of quantised ones."""

from __future__ import annotations

import torch

from harness.expected import Near


def product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> Near:
    """Return a b + bias; float64, (m, k), (k, n) and (n,)."""
    value, magnitude = a @ b, a.abs() @ b.abs()
    if bias is not None:
        value, magnitude = value + bias, magnitude + bias.abs()
    return Near(value, magnitude, length=a.shape[1])


def scaled_product(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    zero_point: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> Near:
    """Return a_scale b_scale (a - zero point) b + bias (Jacob et al. 2017, arXiv:1712.05877, eq. 3 and 7).

    Args:
        a: Integers in float64, (m, k).
        b: Integers in float64, (k, n).
        a_scale: float64, one or (m, 1).
        b_scale: float64, one or (1, n).
        zero_point: Of a, one or (m, 1).
        bias: float64, (n,).

    The products of the integers have no error; the two sums that the zero point makes of them are terms.
    """
    sums = [a @ b]
    if zero_point is not None:
        sums.append(-zero_point * b.sum(0, keepdim=True))
    terms = [a_scale * b_scale * each for each in sums]
    if bias is not None:
        terms.append(bias.expand_as(terms[0]))
    return Near(sum(terms), sum(each.abs() for each in terms))
