"""Choosing tokens: the most likely one, one with Gumbel noise, and the acceptance of drafted ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def first_largest(logits: torch.Tensor) -> torch.Tensor:
    """Return the lowest index of each row's largest value; not a number counts as largest, as in torch.argmax."""
    missing = logits.isnan()
    ranks = torch.where(missing.any(-1, keepdim=True), missing.double(), logits)
    count = logits.shape[-1]
    return torch.where(ranks == ranks.amax(-1, keepdim=True), torch.arange(count), count).amin(-1)


def gumbel_noise(seeds: torch.Tensor, count: int) -> torch.Tensor:
    """-log(-log u): u is number i of SplitMix64, for each seed and i < count (the operator's schema).

    SplitMix64 is figure 16 of Steele, Lea & Flood 2014, Fast Splittable Pseudorandom Number Generators; its mixing
    function also turns the seed into the first state. The upper 53 bits become the middle of one of 2^53 intervals.

    Returns:
        float64, (seeds, count).
    """
    state = _mix(seeds.numpy().astype(np.uint64))[:, None]
    bits = _mix(state + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN_GAMMA) >> np.uint64(11)
    uniform = (bits.astype(np.float64) + 0.5) * 2.0**-53
    return torch.from_numpy(-np.log(-np.log(uniform)))


def gumbel_argmax(logits: torch.Tensor, seeds: torch.Tensor) -> torch.Tensor:
    """argmax(logit + noise), which is distributed as softmax(logits) (Maddison et al. 2014, arXiv:1411.0030, 2.1).

    Args:
        logits: float64, (rows, vocabulary). The first token is taken where all of a row are -infinity.
        seeds: int64, (rows,).
    """
    # A constant changes nothing, and noise is not lost beside large logits if their largest is taken away.
    highest = logits.amax(-1, keepdim=True)
    scores = logits - torch.where(highest.isinf(), 0.0, highest) + gumbel_noise(seeds, logits.shape[-1])
    return first_largest(scores)


def greedy_rejection(drafts: Sequence[int], best: Sequence[int], bonus: int) -> list[int]:
    """Return a request's tokens when drafts must be the target model's best ones (arXiv:2211.17192, temperature 0).

    The first draft that is not is replaced and ends the request; the bonus token follows if there is none.
    """
    return list(
        _until_rejected(((draft == wanted, draft, wanted) for draft, wanted in zip(drafts, best, strict=True)), bonus)
    )


def random_rejection(
    drafts: Sequence[int],
    target: torch.Tensor,
    draft: torch.Tensor,
    uniform: torch.Tensor,
    recovered: Sequence[int],
    bonus: int,
) -> list[int]:
    """Return a request's tokens when each draft is accepted with min(1, p / q) (arXiv:2211.17192, algorithm 1).

    Args:
        drafts: The drafted tokens.
        target: float64, the target model's probability p of each draft.
        draft: float64, the draft model's q of it; a draft of probability 0 is rejected.
        uniform: float64, what p / q is compared with.
        recovered: For each draft, the token that replaces it.
        bonus: The token after the drafts if all are accepted.
    """
    accepted = ((draft > 0) & (target >= uniform * draft)).tolist()
    return list(_until_rejected(zip(accepted, drafts, recovered, strict=True), bonus))


def recovered_token(target: torch.Tensor, draft: torch.Tensor, weights: torch.Tensor) -> int:
    """Return a token of the distribution max(0, p - q) / sum (arXiv:2211.17192, eq. 4 of 2.3), by exponential races.

    Args:
        target: float64, p of all tokens.
        draft: float64, q of all tokens.
        weights: float64, 1 / e, with exponentially distributed e: the first arrival p / e wins.
    """
    return int(first_largest(((target - draft).clamp(min=0) * weights)[None]))


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _until_rejected(tries: Iterator[tuple[bool, int, int]], bonus: int) -> Iterator[int]:
    for accepted, draft, replacement in tries:
        yield draft if accepted else replacement
        if not accepted:
            return
    yield bonus
