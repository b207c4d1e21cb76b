"""The gated delta rule, token by token, and its gates.

Magnitudes are roots of sums of squares: what roundings of random sign add up to (Higham & Mary 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from harness.expected import Near


def decay(rate: torch.Tensor, a: torch.Tensor, bias: torch.Tensor, threshold: float = 20.0, beta: float = 1.0) -> Near:
    """Return log alpha = -e^rate log(1 + e^(a + bias)) (Yang et al. 2024, arXiv:2412.06464, section 3.4).

    Above the threshold, a + bias is taken for log(1 + e^(a + bias)), as the operator's schema says. The 1 is one of
    the terms. With beta it is log(1 + e^(beta (a + bias))) / beta, as in torch.nn.Softplus.

    Args:
        rate: float64, (heads,).
        a: float64, (tokens, heads).
        bias: float64, (heads,).
        threshold: From where on softplus is linear.
        beta: How steep softplus is.
    """
    total = beta * (a + bias)
    softplus = torch.where(total > threshold, total, torch.logaddexp(total, torch.zeros_like(total)))
    return Near(-rate.exp() * softplus / beta, rate.exp() * (1 + softplus) / beta)


def normalised(x: torch.Tensor, epsilon: float) -> torch.Tensor:
    """x / sqrt(sum of squares + epsilon) over the last dimension (Yang et al. 2024, arXiv:2412.06464, section 3.4)."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + epsilon)


def gated_delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    log_decay: torch.Tensor,
    strength: torch.Tensor,
    state: torch.Tensor,
) -> Iterator[tuple[Near, Near]]:
    """S_t = alpha_t S_(t-1) (I - beta_t k_t k_t^T) + beta_t v_t k_t^T; o_t = S_t q_t (arXiv:2412.06464, eq. 10).

    The query is divided by the root of its size. An error that is in the state does not grow as long as
    beta |k|^2 < 2, so that only each token's own ones are added up.

    Args:
        query: float64, (tokens, key heads, key size).
        key: float64, as ``query``.
        value: float64, (tokens, value heads, value size); as many value heads share a key head as there are for each.
        log_decay: float64, (tokens, value heads): log alpha.
        strength: float64, (tokens, value heads): beta.
        state: float64, (value heads, key size, value size): S^T before the first token.

    Yields:
        For each token, what comes out, (value heads, value size), and S^T after it.
    """
    shared = value.shape[1] // key.shape[1]
    query, key = (part.repeat_interleave(shared, dim=1)[..., None] for part in (query / math.sqrt(key.shape[-1]), key))
    squares = torch.zeros_like(state)
    for token in range(value.shape[0]):
        k, q, beta = key[token], query[token], strength[token][:, None, None]
        alpha = log_decay[token].exp()[:, None, None]
        state = alpha * state
        kept = (state * (1 + log_decay[token].abs()[:, None, None])) ** 2
        wanted = value[token][:, None]
        found = (k * state).sum(1, keepdim=True)
        own = beta**2 * (wanted**2 + (k**2 * kept).sum(1, keepdim=True))
        state = state + k * (beta * (wanted - found))
        squares = alpha**2 * squares + k**2 * own
        spread = squares + kept + state**2
        yield Near((q * state).sum(1), (q**2 * spread).sum(1).sqrt()), Near(state, spread.sqrt())
