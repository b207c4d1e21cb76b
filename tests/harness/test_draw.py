"""Inputs, and outputs with guards around them."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import signal

import pytest
import torch

from harness.case import Case
from harness.draw import GUARD, Draw

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_number_that_is_not_written_is_none(dtype: torch.dtype) -> None:
    assert (Draw(1).output([5], dtype).view(torch.uint8) == 0xFF).all()
    assert Draw(1).output([5], dtype).double().isnan().all()


def test_an_integer_that_is_not_written_is_neither_0_nor_1() -> None:
    for dtype in (torch.int8, torch.int32, torch.int64):
        assert (Draw(1).output([5], dtype) > 1).all()


@pytest.mark.parametrize("place", [-1, 6])
def test_writing_beside_an_output_is_seen(place: int) -> None:
    draw = Draw(1)
    out = draw.output([2, 3], torch.float32)
    assert draw.damage() == ""
    out.as_strided((1,), (1,), out.storage_offset() + place).fill_(0.0)
    assert ("after" if place > 0 else "before") in draw.damage()


def test_gaps_between_rows_are_not_part_of_a_strided_tensor() -> None:
    draw = Draw(1)
    values = draw.normal([3, 4])
    apart = draw.strided(values)
    assert torch.equal(apart, values)
    assert apart.stride() == (12, 1)
    assert GUARD >= 64


@pytest.mark.parametrize("row", [0, 2])
def test_writing_between_rows_is_seen(row: int) -> None:
    draw = Draw(1)
    apart = draw.strided(draw.normal([3, 4]))
    assert draw.damage() == ""
    apart.as_strided((1,), (1,), apart.storage_offset() + row * 12 + 4).fill_(0.0)
    assert "between the rows of its output 0" in draw.damage()


def test_the_output_that_was_overrun_is_named() -> None:
    draw = Draw(1)
    draw.output([3], torch.float32)
    second = draw.output([3], torch.int8)
    second.as_strided((1,), (1,), second.storage_offset() + 3).zero_()
    assert draw.damage() == "the operator wrote after the memory of its output 1"


@pytest.mark.parametrize(("shape", "dtype"), [((3, 17), torch.float32), ((5000,), torch.bfloat16), ((), torch.int8)])
def test_behind_a_tensor_at_an_edge_nobody_may_read(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    draw = Draw(1)
    values = draw.normal(shape, torch.float32).to(dtype)
    edge = draw.at_edge(values)
    assert torch.equal(edge, values)
    behind = edge.data_ptr() + edge.numel() * edge.itemsize
    assert behind % mmap.PAGESIZE == 0
    process = multiprocessing.get_context("fork").Process(target=ctypes.string_at, args=(behind, 1))
    process.start()
    process.join()
    assert process.exitcode in {-signal.SIGSEGV, -signal.SIGBUS}


def test_inputs_depend_on_the_name_alone() -> None:
    one, same, other = (Draw(Case((), name, "", lambda: None, {}).seed).normal([9]) for name in ("a", "a", "b"))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_extremes_hold_every_kind_of_number() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        values, info = Draw(3).extremes([200], dtype), torch.finfo(dtype)
        assert (values == info.max).any()
        assert (values == info.min).any()
        assert ((values.abs() < info.smallest_normal) & (values != 0)).any()
        assert (values.signbit() & (values == 0)).any()
        assert values.isfinite().all()
