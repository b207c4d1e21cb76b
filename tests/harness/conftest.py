"""Tests of the parity harness; they need torch, so they run in a build environment (tests/integration)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))

from harness.library import Library


def double(out: torch.Tensor, x: torch.Tensor) -> None:
    torch.mul(x, 2, out=out)


def double_and_spoil(out: torch.Tensor, x: torch.Tensor) -> None:
    torch.mul(x, 2, out=out)
    x.zero_()


def double_and_overrun(out: torch.Tensor, x: torch.Tensor) -> None:
    torch.mul(x, 2, out=out)
    out.as_strided((out.numel() + 1,), (1,), out.storage_offset())[-1] = 1.0


def double_sometimes(out: torch.Tensor, x: torch.Tensor, calls: list[int] = [0]) -> None:  # noqa: B006  (counts)
    calls[0] += 1
    torch.mul(x, 2 + 1e-6 * (calls[0] % 2), out=out)


def double_by_threads(out: torch.Tensor, x: torch.Tensor) -> None:
    torch.mul(x, 2 + 1e-6 * (torch.get_num_threads() > 1), out=out)


def double_nothing(out: torch.Tensor, x: torch.Tensor) -> None:  # noqa: ARG001
    raise RuntimeError("not supported")


def doubled(out: torch.Tensor, x: torch.Tensor, wide: bool) -> tuple[torch.Tensor, torch.Tensor]:
    made = x.float() * 2
    return made if wide else made.to(x.dtype), out.fill_(1.0)


OPERATORS: tuple[Callable[..., None], ...] = (
    double,
    double_and_spoil,
    double_and_overrun,
    double_sometimes,
    double_by_threads,
    double_nothing,
)


@pytest.fixture(scope="session")
def library() -> Iterator[Library]:
    """Operators in Python, most of them faulty."""
    definition = torch.library.Library("_C", "FRAGMENT")
    for function in OPERATORS:
        definition.define(f"{function.__name__}(Tensor! out, Tensor x) -> ()")
        definition.impl(function.__name__, lambda out, x, function=function: function(out, x), "CPU")
    made = Library.__new__(Library)
    made.path, made.cut_off, made._checked, made._all_marked = Path("_C_MADE_UP.abi3.so"), frozenset(), True, False
    made.operators, made.called, made.made = [function.__name__ for function in OPERATORS], set(), []
    definition.define("doubled(Tensor(a!) out, Tensor x, bool wide) -> (Tensor, Tensor(a!))")
    definition.impl("doubled", doubled, "CPU")
    yield made
    definition._destroy()
