"""What counts as equal, and what as wrong."""

from __future__ import annotations

import math

import pytest
import torch

from harness.compare import compare, compare_bits, compare_within
from harness.expected import Exact, Judged, Near
from harness.formats import largest, lowest, ulp
from harness.limits import Bound, Limit

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_ulp_is_the_distance_to_the_next_number(dtype: torch.dtype) -> None:
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    top = torch.tensor(torch.finfo(dtype).max, dtype=dtype).view(width).item()
    patterns = torch.arange(0, top, max(1, top // 5000), dtype=torch.int64).to(width)
    here, above = patterns.view(dtype).double(), (patterns + 1).to(width).view(dtype).double()
    assert torch.equal(ulp(here, dtype), above - here)


@pytest.mark.parametrize("dtype", FLOATS[:3])
def test_rounding_is_within_half_an_ulp_and_truncating_is_not(dtype: torch.dtype) -> None:
    exact = torch.randn(4096, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    limit = Limit()
    assert compare(exact.to(dtype), Near(exact), limit).ratio <= 1
    rounded = exact.to(dtype)
    next_one = (rounded.double() + ulp(exact, dtype) * (exact - rounded.double()).sign()).to(dtype)
    assert compare(next_one, Near(exact), limit).ratio > 1


def test_integers_are_rounded_by_half() -> None:
    assert compare(torch.tensor([3], dtype=torch.int8), Near(torch.tensor([3.5]).double()), Limit()).ratio == 1
    assert compare(torch.tensor([3], dtype=torch.int8), Near(torch.tensor([3.6]).double()), Limit()).ratio > 1


@pytest.mark.parametrize(
    ("got", "wanted", "right"),
    [(-128, -200.0, True), (-127, -200.0, False), (127, 200.0, True), (126, 200.0, False), (-128, -128.4, True)],
)
def test_integers_end_where_their_format_does(got: int, wanted: float, right: bool) -> None:
    found = compare(torch.tensor([got], dtype=torch.int8), Near(torch.tensor([wanted], dtype=torch.float64)), Limit())
    assert (found.ratio <= 1) is right
    assert (lowest(torch.int8), largest(torch.int8)) == (-128.0, 127.0)


def test_formats_that_are_cut_off_to_may_err_by_an_ulp() -> None:
    exact = torch.tensor([1 + 2**-7 * 0.9], dtype=torch.float64)
    below = torch.ones(1, dtype=torch.bfloat16)
    assert compare(below, Near(exact), Limit()).ratio > 1
    assert compare(below, Near(exact), Limit(), {"bfloat16"}).ratio <= 1
    assert compare(below, Near(exact), Limit(), {"float16"}).ratio > 1


@pytest.mark.parametrize(
    ("got", "wanted", "right"),
    [
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, INF, True),
        (-INF, INF, False),
        (INF, 1.0, False),
        (1.0, INF, False),
        (INF, 1e39, True),
        (3.4028235e38, 1e39, True),
        (-INF, 1e39, False),
        (0.0, -0.0, True),
        (INF, 3.4028235e38, True),
        (3.4028235e38, 3.4028236e38, True),
        (1e38, 1e39, False),
    ],
)
def test_what_is_not_finite(got: float, wanted: float, right: bool) -> None:
    one = torch.tensor([got], dtype=torch.float32)
    exact = torch.tensor([wanted], dtype=torch.float64)
    assert (compare(one, Near(exact), Limit()).ratio <= 1) is right


def test_the_worst_element_is_named() -> None:
    exact = torch.zeros(3, 4, dtype=torch.float64)
    got = exact.float()
    got[2, 1] = 5.0
    found = compare_within(got, exact, Bound(torch.zeros_like(exact), torch.full_like(exact, 0.5)))
    assert found.ratio == 10
    assert "[2, 1]" in found.message
    assert "1 of 12" in found.message


@pytest.mark.parametrize("other", [torch.zeros(3, 3), torch.zeros(9)])
def test_a_wrong_shape_is_wrong(other: torch.Tensor) -> None:
    assert compare(other, Near(torch.zeros(3, 4).double()), Limit()).message
    assert compare(other, Exact(torch.zeros(3, 4)), None).message


def test_nothing_is_right_where_nothing_is_expected() -> None:
    assert not compare(torch.zeros(0, 4), Near(torch.zeros(0, 4).double()), Limit()).message
    assert not compare_bits(torch.zeros(0), torch.zeros(0)).message


def test_bits() -> None:
    assert compare_bits(torch.tensor([0.0]), torch.tensor([-0.0])).message
    assert not compare_bits(torch.tensor([NAN]), torch.tensor([NAN])).message
    assert compare_bits(torch.tensor([1]), torch.tensor([1.0])).message
    assert "[1]" in compare_bits(torch.tensor([1, 2]), torch.tensor([1, 3])).message


def test_a_judge_decides() -> None:
    assert compare(torch.tensor(3), Judged(lambda got: "" if got == 3 else "not three"), None).ratio == 0
    assert compare(torch.tensor(4), Judged(lambda got: "" if got == 3 else "not three"), None).message == "not three"


def test_a_result_without_a_limit_is_wrong() -> None:
    assert "limits" in compare(torch.zeros(1), Near(torch.zeros(1).double()), None).message


def test_the_ratio_leaves_out_what_storing_costs() -> None:
    exact = torch.zeros(4, dtype=torch.float64)
    bound = Bound(torch.full_like(exact, 0.5), torch.full_like(exact, 2.0))
    ratios = [
        compare_within(torch.tensor([error, 0, 0, 0]), exact, bound).ratio for error in (0.0, 0.5, 1.0, 1.5, 2.5, 4.5)
    ]
    assert ratios == [0, 0, 0.25, 0.5, 1, 2]


def test_where_only_storing_costs_something_the_ratio_is_the_error_over_it() -> None:
    exact = torch.zeros(1, dtype=torch.float64)
    bound = Bound(torch.full_like(exact, 0.5), torch.zeros_like(exact))
    assert [compare_within(torch.tensor([error]), exact, bound).ratio for error in (0.0, 0.25, 0.5, 1.0)] == [
        0,
        0.5,
        1,
        2,
    ]
