"""Selective state space models with one decay for each head (Mamba-2), token by token.

Magnitudes are roots of sums of squares: what roundings of random sign add up to (Higham & Mary 2019), if a sum has
some hundred terms and the state forgets old errors as it forgets old tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from harness.expected import Near


def time_step(raw: torch.Tensor, bias: torch.Tensor | None, *, softplus: bool) -> Near:
    """log(1 + e^(raw + bias)), or the sum (Gu & Dao 2023, arXiv:2312.00752, algorithm 2 and section 3.6).

    Args:
        raw: float64, (tokens, heads).
        bias: float64, (heads,).
        softplus: Whether the sum's softplus is taken.
    """
    shift = torch.zeros_like(raw[:1]) if bias is None else bias
    total, magnitude = raw + shift, raw.abs() + shift.abs()
    if not softplus:
        return Near(total, magnitude)
    value = torch.logaddexp(total, torch.zeros_like(total))
    return Near(value, value + torch.sigmoid(total) * magnitude)


def selective_scan(
    x: torch.Tensor,
    step: Near,
    rate: torch.Tensor,
    key: torch.Tensor,
    query: torch.Tensor,
    skip: torch.Tensor | None,
    gate: torch.Tensor | None,
    state: torch.Tensor,
) -> Iterator[tuple[Near, Near]]:
    """h_t = exp(A dt_t) h_(t-1) + dt_t x_t B_t; y_t = C_t h_t + D x_t, times silu(z_t).

    These are equations 2 of Gu & Dao 2023 (arXiv:2312.00752), with A one number for each head as in Dao & Gu 2024
    (arXiv:2405.21060, section 5).

    Args:
        x: float64, (tokens, heads, head size).
        step: dt; (tokens, heads).
        rate: float64, (heads,): A.
        key: float64, (tokens, groups, state size): B; as many heads share a group as there are heads for each.
        query: float64, as ``key``: C.
        skip: float64, (heads,): D.
        gate: float64, as ``x``: z.
        state: float64, (heads, head size, state size): h before the first token.

    Yields:
        For each token, what comes out, (heads, head size), and the state after it.
    """
    shared = state.shape[0] // key.shape[1]
    key, query = (part.repeat_interleave(shared, dim=1) for part in (key, query))
    assert step.magnitude is not None
    squares = torch.zeros_like(state)
    for token in range(x.shape[0]):
        decay = torch.exp(rate * step.value[token])[:, None, None]
        steepness = 1 + (rate.abs() * step.magnitude[token])[:, None, None]
        entered = x[token][..., None] * key[token][:, None]
        state = decay * state
        squares = decay**2 * squares + (state * steepness) ** 2 + (entered * step.magnitude[token][:, None, None]) ** 2
        state = state + entered * step.value[token][:, None, None]
        read = query[token][:, None]
        out, spread = (state * read).sum(-1), ((squares + state**2) * read**2).sum(-1)
        if skip is not None:
            out, spread = out + skip[:, None] * x[token], spread + (skip[:, None] * x[token]) ** 2
        if gate is not None:
            factor = gate[token] * torch.sigmoid(gate[token])
            out, spread = out * factor, (spread + out**2) * factor**2
        yield Near(out, spread.sqrt()), Near(state, (squares + state**2).sqrt())
