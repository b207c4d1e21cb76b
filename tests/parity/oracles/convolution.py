"""Causal convolution of each channel by itself, over the last few tokens, and the history that it needs."""

from __future__ import annotations

import torch

from harness.expected import Near


def causal_convolution(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, history: torch.Tensor, *, silu: bool
) -> Near:
    """y[c, t] = bias[c] + sum over j of weight[c, j] x[c, t - width + 1 + j] (Gu & Dao 2023, arXiv:2312.00752, fig. 3).

    Args:
        x: float64, (channels, tokens).
        weight: float64, (channels, width); the last one is for the token itself.
        bias: float64, (channels,).
        history: float64, (channels, width - 1): the tokens before the first.
        silu: Whether x sigmoid(x) is applied to the sum.
    """
    tokens = torch.cat([history, x], dim=-1)
    terms = torch.stack([tokens[:, j : j + x.shape[1]] * weight[:, j, None] for j in range(weight.shape[1])])
    total, magnitude = terms.sum(0), terms.abs().sum(0)
    if bias is not None:
        total, magnitude = total + bias[:, None], magnitude + bias.abs()[:, None]
    if not silu:
        return Near(total, magnitude)
    gate = torch.sigmoid(total)
    slope = gate * (1 + total * (1 - gate))
    return Near(total * gate, slope.abs() * magnitude + (total * gate).abs())


def next_history(x: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
    """Return as many of the last tokens as the history has; any format, (channels, tokens)."""
    return torch.cat([history, x], dim=-1)[..., x.shape[-1] :]


def packed_weight(weight: torch.Tensor, block: int) -> torch.Tensor:
    """Return weights in the order that instructions for products of pairs read them.

    Args:
        weight: (channels, width), with an even width.
        block: How many channels are side by side.

    Returns:
        The same shape; blocks of channels, in them pairs of neighbouring weights, in them the channels.
    """
    return weight.reshape(-1, block, weight.shape[1] // 2, 2).transpose(1, 2).reshape(weight.shape)
