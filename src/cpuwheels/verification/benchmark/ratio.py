"""How much faster one side is, from times taken in turn: a median with a confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """A speed ratio: how many times as fast the wheel is as the other.

    Attributes:
        value: Median of the rounds' ratios.
        low: Lower end of the confidence interval of the median.
        high: Its upper end.
    """

    value: float
    low: float
    high: float


def median_ratio(ratios: Sequence[float]) -> Ratio:
    """Return the median of the rounds' ratios.

    The interval is made of two of the ratios, as many places from the smallest as from the largest (Hahn & Meeker
    1991, Statistical Intervals, 5.2): it supposes nothing of how times are distributed.

    Args:
        ratios: Time of the other side over time of the wheel, one for each round.

    Raises:
        ValueError: There is none.
    """
    if not ratios:
        raise ValueError("no rounds")
    ordered = sorted(ratios)
    below = _rank(len(ordered))
    return Ratio(median(ordered), ordered[below], ordered[-1 - below])


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean, the only mean of ratios that does not depend on which side is divided by."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _rank(count: int) -> int:
    """Return how many of the smallest and largest ratios lie outside the interval; none if there are too few."""
    tail, outside = 0.0, 0
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            break
        outside = rank
    return outside
