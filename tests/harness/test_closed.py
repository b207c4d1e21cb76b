"""Which memory is closed to operators: the guards of every tensor that they may be given, in whole pieces."""

from __future__ import annotations

import gc

import torch

from harness.closed import CLOSES, closed, regions
from harness.draw import GUARD, Draw, guards


def test_a_guard_before_and_after_an_output_is_one_piece() -> None:
    gc.collect()
    before = len(guards())
    draw = Draw(1)
    out = draw.output((3, 5), torch.float32)
    first, last = guards()[before:]
    assert list(regions(first)) == [(out.data_ptr() - GUARD * 4, GUARD * 4)]
    assert list(regions(last)) == [(out.data_ptr() + 15 * 4, GUARD * 4)]
    del draw, first, last
    gc.collect()
    assert len(guards()) == before


def test_what_lies_between_rows_is_a_piece_for_each_row() -> None:
    rows = Draw(1).strided(torch.ones(2, 3, 4), padding=8)
    wide = torch.as_strided(rows, (2, 3, 8), rows.stride(), rows.storage_offset() + 4)
    start = rows.data_ptr()
    assert list(regions(wide)) == [(start + (row * 12 + 4) * 4, 32) for row in range(6)]
    assert list(regions(torch.empty(0))) == []


def test_without_a_sanitizer_nothing_is_closed() -> None:
    assert not CLOSES
    part = torch.ones(8)
    with closed([part]):
        assert part.sum() == 8
