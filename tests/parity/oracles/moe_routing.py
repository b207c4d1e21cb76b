"""Which experts a token goes to, and how much each counts; after DeepSeek-V3 (arXiv:2412.19437, 2.1.2)."""

from __future__ import annotations

import torch

from harness.expected import Near

LOST = -15.0
"""Below it 1 + e^x has no digit of e^x left in float32, so that it cannot be what a kernel adds up."""


def scores(logits: torch.Tensor, function: str) -> Near:
    """Return the affinity to each expert: the softmax, sigmoid, or square root of the softplus of its logit.

    A softmax's exponents are differences, and e^x magnifies their errors by x; the exponential's own are 8 roundings.
    log(1 + e^x) adds up 1 and e^x; its root halves relative errors.
    """
    match function:
        case "softmax":
            value = torch.softmax(logits, -1)
            return Near(value, value * (1 + (logits - logits.amax(-1, keepdim=True)).abs() / 8))
        case "sigmoid":
            return Near(torch.sigmoid(logits))
        case "sqrtsoftplus":
            value = torch.log1p(logits.exp()).where(logits < 700, logits).sqrt()
            lost = torch.where(logits < LOST, 0.0, 0.5 * (logits < 0) / value)
            return Near(value, value + lost)
    raise ValueError(function)


def selected(biased: torch.Tensor, count: int) -> torch.Tensor:
    """Return the experts with the highest biased affinities, best first; int32."""
    return biased.sort(-1, descending=True).indices[:, :count].int()


def shares(
    affinities: Near, chosen: torch.Tensor, *, normalised: bool, factor: float = 1.0, shared: float | None = None
) -> Near:
    """Return how much each chosen expert counts.

    Args:
        affinities: To all experts, (tokens, experts).
        chosen: (tokens, k).
        normalised: Whether they are divided by their sum, and multiplied with the factor.
        factor: Of all.
        shared: If given, the sum of the shares over it is appended: that of a shared expert.
    """
    assert affinities.relative_to.shape == affinities.value.shape
    places = chosen.long()
    value, magnitude = affinities.value.gather(-1, places), affinities.relative_to.gather(-1, places)
    if normalised:
        total = value.sum(-1, keepdim=True)
        # The quotient's error is that of the share, and its part of the sum's.
        magnitude = (magnitude + value * magnitude.sum(-1, keepdim=True) / total) * factor / total
        value = value * factor / total
    if shared is not None:
        value, magnitude = (torch.cat([part, part.sum(-1, keepdim=True) / shared], -1) for part in (value, magnitude))
    return Near(value, magnitude)
