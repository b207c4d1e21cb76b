"""The oracle of 8-bit floating point, against what the formats' specification says in words."""

from __future__ import annotations

import math

import pytest
import torch

from oracles import fp8_quantisation as oracle

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@pytest.mark.parametrize(("dtype", "finite"), [(E4M3, 127), (E5M2, 124)])
def test_ties_are_between_all_neighbours(dtype: torch.dtype, finite: int) -> None:
    middles, even = oracle.ties(dtype)
    assert len(middles) == len(even) == 2 * (finite - 1)
    assert bool((even.view(torch.uint8) % 2 == 0).all())
    assert middles[0] == {E4M3: 2.0**-10, E5M2: 2.0**-17}[dtype]
    assert even[0].float() == 0
    assert math.copysign(1, float(even[finite - 1].float())) == -1


def test_saturation_is_the_largest_number() -> None:
    found = oracle.quantise(torch.tensor([[1e9, -1e9, 3.0, math.nan]]).double(), torch.tensor(0.5), E4M3).value
    assert found[0, :3].tolist() == [448, -448, 6]
    assert found[0, 3].isnan()


@pytest.mark.parametrize(
    ("row", "bound", "scale"),
    [
        ([448.0, -896.0], None, 2.0),
        ([1.0, -896.0], 448.0, 1.0),
        ([0.0, 0.0], None, 0.25),
        ([math.nan, 448.0], None, 1.0),
        ([math.inf, 1.0], 896.0, 2.0),
    ],
)
def test_scales_of_rows(row: list[float], bound: float | None, scale: float) -> None:
    assert oracle.row_scales(torch.tensor([row]).double(), E4M3, bound, 0.25).tolist() == [[scale]]


def test_groups_are_of_equal_sizes() -> None:
    wide = oracle.wide(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (2, 6))
    assert wide.tolist() == [[1, 1, 1, 2, 2, 2], [3, 3, 3, 4, 4, 4]]
