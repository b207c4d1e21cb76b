"""An output against what is expected of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch

from harness.expected import Exact, Expected, Near
from harness.formats import largest, lowest
from harness.limits import Bound, Limit


@dataclass(frozen=True)
class Agreement:
    """How well an output agrees.

    Attributes:
        ratio: How much of its limit the worst error uses up, without what storing a result in its format costs anyway;
            above 1 is wrong, 0 as exact as the format allows.
        error: The worst error, absolute.
        limit: The limit at that element.
        message: What is wrong; empty if nothing is.
        bound: The limit of each element, where there is one.
    """

    ratio: float
    error: float
    limit: float
    message: str = ""
    bound: Bound | None = None


def compare(got: torch.Tensor, expected: Expected, limit: Limit | None, cut_off: Collection[str] = ()) -> Agreement:
    """Compare an output with its oracle; ``cut_off`` are formats that the library cuts off to."""
    if isinstance(expected, Near):
        if limit is None:
            return _wrong("limits/ has nothing on this operator")
        if problem := _shape(got, expected.value):
            return _wrong(problem)
        bound = limit.bound(expected, got.dtype, cut_off)
        return replace(compare_within(got, expected.value, bound), bound=bound)
    if isinstance(expected, Exact):
        return compare_bits(got, expected.value)
    problem = expected.judge(got)
    return _wrong(problem) if problem else Agreement(0.0, 0.0, 0.0)


def compare_within(got: torch.Tensor, wanted: torch.Tensor, bound: Bound) -> Agreement:
    """Compare element by element within a bound.

    A result that was computed exactly and then rounded has a ratio of 0, one whose error is the whole bound one of 1.
    What lies between shows how far it was off before it was rounded: where an exact result lies close to the middle
    between two numbers, an error of that size takes it to the wrong one.

    Not a number must be not a number. A result beyond the largest or the lowest finite number must be infinity, or that
    number in formats without infinity; one that is closer to it than its bound may be either.
    """
    if got.numel() == 0:
        return Agreement(0.0, 0.0, 0.0)
    wide, wanted = got.double(), wanted.double()
    total = bound.total
    top, bottom = largest(got.dtype), lowest(got.dtype)
    special = wanted.isnan() | wanted.isinf() | (wanted > top) | (wanted < bottom) | wide.isinf()
    right = (
        (wanted.isnan() & wide.isnan())
        | (wide == wanted)
        | ((wanted + total >= top) & (wide >= top))
        | ((wanted - total <= bottom) & (wide <= bottom))
    )
    error = (wide - wanted).abs()
    beyond = (error - bound.storing).clamp(min=0)
    ratio = torch.where(bound.computing > 0, beyond / bound.computing, error / total)
    ratio = torch.where(error == 0, 0.0, ratio)
    ratio = torch.where(special, torch.where(right, 0.0, torch.inf), ratio)
    ratio = torch.where(wide.isnan() & ~wanted.isnan(), torch.inf, ratio).nan_to_num(nan=torch.inf, posinf=torch.inf)
    worst = int(ratio.flatten().argmax())
    at = _index(worst, ratio.shape)
    agreement = (
        float(ratio.flatten()[worst]),
        float(error.flatten()[worst]),
        float(total.expand_as(ratio).reshape(-1)[worst]),
    )
    if agreement[0] <= 1:
        return Agreement(*agreement)
    wrong = int((ratio > 1).sum())
    return Agreement(
        *agreement,
        f"{wrong} of {ratio.numel()} elements are wrong; the worst at {list(at)}: {wide[at]:.9g} instead of "
        f"{wanted[at]:.9g}, error {agreement[1]:.3g}, limit {agreement[2]:.3g}",
    )


def is_within(got: torch.Tensor, wanted: torch.Tensor, limit: torch.Tensor) -> bool:
    """Return whether no error is above a limit, all numbers being finite; `compare_within` says more, and takes longer.

    Args:
        got: Any shape and format.
        wanted: The same shape; float64.
        limit: The same shape, or one that expands to it; float64.
    """
    return bool(((got.double() - wanted).abs() <= limit).all())


def compare_bits(got: torch.Tensor, wanted: torch.Tensor) -> Agreement:
    """Compare bit for bit; one not-a-number is like another."""
    if problem := _shape(got, wanted):
        return _wrong(problem)
    if got.dtype != wanted.dtype:
        return _wrong(f"the output is {got.dtype} instead of {wanted.dtype}")
    if got.numel() == 0:
        return Agreement(0.0, 0.0, 0.0)
    same = bits(got) == bits(wanted)
    if got.dtype.is_floating_point:
        same |= got.isnan() & wanted.isnan()
    if bool(same.all()):
        return Agreement(0.0, 0.0, 0.0)
    at = tuple(int(index) for index in (~same).nonzero()[0])
    return _wrong(
        f"{int((~same).sum())} of {same.numel()} elements differ; the first at {list(at)}: "
        f"{got[at].item()} instead of {wanted[at].item()}"
    )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements as integers, so that -0 and 0 differ and every not-a-number equals itself."""
    if not tensor.dtype.is_floating_point:
        return tensor
    return tensor.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.itemsize])


def _index(place: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of an element by its place; torch's own function for it first loads a lot of Python."""
    index: list[int] = []
    for size in reversed(shape):
        place, at = divmod(place, size)
        index.insert(0, at)
    return tuple(index)


def _shape(got: torch.Tensor, wanted: torch.Tensor) -> str:
    if got.shape == wanted.shape:
        return ""
    return f"the output has the shape {list(got.shape)} instead of {list(wanted.shape)}"


def _wrong(message: str) -> Agreement:
    return Agreement(torch.inf, torch.inf, 0.0, message)
