from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuwheels.config.options import FEWEST_ROUNDS
from cpuwheels.verification.benchmark.ratio import CONFIDENCE, geometric_mean, median_ratio

RATIOS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40)


@given(RATIOS)
def test_the_interval_holds_the_median(ratios: list[float]) -> None:
    ratio = median_ratio(ratios)
    assert ratio.low <= ratio.value <= ratio.high


# Hahn & Meeker 1991, section 5.2: the probability that the median is between two order statistics is binomial.
@pytest.mark.parametrize(("rounds", "below"), [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5), (30, 9)])
def test_the_interval_is_the_narrowest_that_has_the_confidence(rounds: int, below: int) -> None:
    ratio = median_ratio([float(number) for number in range(rounds)])
    assert (ratio.low, ratio.high) == (below, rounds - 1 - below)
    outside = [2 * sum(math.comb(rounds, k) for k in range(end + 1)) / 2**rounds for end in (below, below + 1)]
    assert 1 - outside[0] >= CONFIDENCE > 1 - outside[1]


def test_fewer_rounds_cannot_have_the_confidence() -> None:
    assert 1 - 2 / 2**FEWEST_ROUNDS >= CONFIDENCE > 1 - 2 / 2 ** (FEWEST_ROUNDS - 1)


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    draw = random.Random(1)
    covered = 0
    for _ in range(2000):
        ratio = median_ratio([draw.lognormvariate(0.0, 0.2) for _ in range(15)])
        covered += ratio.low <= 1.0 <= ratio.high
    assert 0.95 < covered / 2000 < 0.985


def test_one_outlier_changes_little() -> None:
    ratio = median_ratio([1.1] * 14 + [50.0])
    assert (ratio.low, ratio.value, ratio.high) == (1.1, 1.1, 1.1)


def test_there_must_be_a_round() -> None:
    with pytest.raises(ValueError, match="no rounds"):
        median_ratio([])


def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert geometric_mean([4.0, 0.25]) == pytest.approx(1.0)
