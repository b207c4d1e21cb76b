"""Softmax attention, and which keys a query sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.expected import Near
from harness.formats import unit_roundoff


@dataclass(frozen=True)
class Roundings:
    """What a kernel rounds to a coarser format than float32 before it multiplies.

    Attributes:
        weights: The format of e^score.
        queries: The format of the scaled queries.
    """

    weights: torch.dtype = torch.float32
    queries: torch.dtype = torch.float32


def distance(queries: int, keys: int) -> torch.Tensor:
    """Return how many positions each key lies before each query; int64, (queries, keys).

    The queries are the last tokens of the sequence that the keys belong to.
    """
    return torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)


def visible(queries: int, keys: int, *, causal: bool, window: int | None = None) -> torch.Tensor:
    """Return whether each query sees each key; bool, (queries, keys).

    Args:
        queries: How many there are; the last tokens of the sequence.
        keys: How many there are; all tokens of the sequence.
        causal: Whether later keys are hidden (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3).
        window: Only keys less than so far away are seen (Beltagy, Peters & Cohan 2020, arXiv:2004.05150, section 3.1).
    """
    far = distance(queries, keys)
    seen = torch.ones_like(far, dtype=torch.bool)
    if causal:
        seen &= far >= 0
    if window is not None:
        seen &= far.abs() < window
    return seen


def attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    seen: torch.Tensor,
    *,
    scale: float,
    softcap: float = 0.0,
    slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    roundings: Roundings = Roundings(),
) -> Near:
    """softmax(query keys^T scale) values, for each head (Vaswani et al. 2017, arXiv:1706.03762, equation 1).

    Args:
        query: float64, (queries, heads, head size).
        keys: float64, (keys, heads of keys, head size). Successive heads of the query share one, where there are
            fewer (Ainslie et al. 2023, arXiv:2305.13245, section 2.2).
        values: float64, (keys, heads of keys, value size).
        seen: bool, (queries, keys).
        scale: Of the scores.
        softcap: Scores become softcap * tanh(score / softcap) (Gemma 2, arXiv:2408.00118, section 2), unless 0.
        slopes: float64, (heads,): scores lose slope * distance (ALiBi: Press, Smith & Lewis 2021, arXiv:2108.12409).
        sinks: float64, (heads,): a score of each head whose value is zero (gpt-oss, arXiv:2508.10925).
        roundings: What is rounded on the way.

    Returns:
        (queries, heads, value size). The magnitude is in unit roundoffs of the coarsest format of ``roundings``. The
        roundings of the n terms are independent, so it is the root of the sum of their squares (Higham & Mary 2019).
    """
    shared = query.shape[1] // keys.shape[1]
    queries, keys, values = (
        query.transpose(0, 1) * scale,
        keys.repeat_interleave(shared, 1).transpose(0, 1),
        values.repeat_interleave(shared, 1).transpose(0, 1),
    )
    scores = queries @ keys.mT
    spread = (queries.square() @ keys.square().mT).sqrt()
    # A sum of n terms errs by sqrt(n) roundings of its partial sums: half of the last one on average, and random.
    terms = math.sqrt(query.shape[-1]) / 2 * (scores.abs() + spread)
    if softcap:
        scores, terms = softcap * (scores / softcap).tanh(), terms + softcap
    if slopes is not None:
        bias = -slopes[:, None, None] * distance(*seen.shape)
        scores, terms = scores + bias, terms + bias.abs()
    scores = scores.masked_fill(~seen, -math.inf)
    if sinks is not None:
        terms = terms + sinks.abs()[:, None, None]
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:2], 1)], -1)
    weights = scores.softmax(-1)[..., : seen.shape[1]]
    value = weights @ values
    magnitude = _magnitude(weights, values, value, terms, spread, roundings)
    return Near(value.transpose(0, 1), magnitude.transpose(0, 1))


def _magnitude(
    weights: torch.Tensor,
    values: torch.Tensor,
    result: torch.Tensor,
    terms: torch.Tensor,
    spread: torch.Tensor,
    roundings: Roundings,
) -> torch.Tensor:
    """Return how far the result goes if every rounding errs by a unit.

    The sum of n terms w v errs by sqrt(n) float32 roundings of each, and by one of the weights' format. A score that
    errs by d changes the result by w d (v - result). A score errs by float32 roundings of the terms that it adds up,
    and by one of the queries' format in each product.

    Args:
        terms: How many float32 roundings a score errs by, times what they are relative to.
        spread: How large a score is if its terms have random signs.
    """
    fine, of_weights, of_queries = map(unit_roundoff, (torch.float32, roundings.weights, roundings.queries))
    coarse = max(of_weights, of_queries)
    score = (fine * terms + of_queries * spread) / coarse
    term = score + (fine * math.sqrt(weights.shape[-1]) + of_weights) / coarse
    squares = weights.square()
    # The sum over all keys of (w (|v| term + |result| score))^2, as |v - result| is at most |v| + |result|.
    total = (
        (squares * term.square()) @ values.square()
        + 2 * result.abs() * ((squares * term * score) @ values.abs())
        + result.square() * (squares * score.square()).sum(-1, keepdim=True)
    )
    return fine / coarse * result.abs() + total.sqrt()


def joined(parts: Sequence[Near]) -> Near:
    """Return the results of several sequences as one."""
    return Near(torch.cat([part.value for part in parts]), torch.cat([part.relative_to for part in parts]))
