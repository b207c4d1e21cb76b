"""Activation functions, element by element.

All take and return float64 tensors of one shape. The magnitude that goes with a function's value is the sum of the
absolute values of the terms that its definition adds up, which is what rounding errors are relative to where the
terms cancel.
"""

from __future__ import annotations

import math

import torch

from harness.expected import Near


def silu(x: torch.Tensor) -> Near:
    """x / (1 + e^-x): the sigmoid linear unit (Elfwing, Uchibe & Doya 2017, arXiv:1702.03118)."""
    return Near(x * torch.sigmoid(x))


def gelu(x: torch.Tensor) -> Near:
    """x Phi(x), with the normal distribution's Phi(x) = (1 + erf(x / sqrt 2)) / 2 (Hendrycks & Gimpel 2016, eq. 1)."""
    return Near(x * torch.special.ndtr(x), x.abs())


def gelu_tanh(x: torch.Tensor) -> Near:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2)."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    # (1 + tanh y) / 2 is the logistic function of 2 y, which does not cancel.
    return Near(x * torch.sigmoid(2 * inner), x.abs())


def gelu_quick(x: torch.Tensor) -> Near:
    """x sigmoid(1.702 x) (Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2).

    The relative error of e^y is the absolute one of y = 1.702 x, which is rounded.
    """
    value = x * torch.sigmoid(1.702 * x)
    return Near(value, value.abs() * (1 + (1.702 * x).abs() * torch.sigmoid(-1.702 * x)))


def gated(activation: Near, gate: torch.Tensor) -> Near:
    """Return activation(first half) * second half (Shazeer 2020, GLU Variants, arXiv:2002.05202)."""
    return Near(activation.value * gate, activation.relative_to * gate.abs())
