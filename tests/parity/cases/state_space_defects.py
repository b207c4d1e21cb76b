"""Calls that the update of state space models takes and gets wrong; exact, as nothing decays and all numbers are small.

docs/findings.md has one heading for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact
from harness.ranks import run_ranks, shared

WIDTH = 8
NO_SLOT = -1


def _update(
    library: Any,
    state: torch.Tensor,
    x: torch.Tensor,
    out: torch.Tensor,
    *,
    rate: torch.Tensor | None = None,
    slots: Sequence[torch.Tensor | None] = (None, None),
    accepted: torch.Tensor | None = None,
    ends: torch.Tensor | None = None,
) -> None:
    """Add x to each component of its state, which decays with the rate, and give the sum of the components."""
    tokens, heads, _ = x.shape
    ones = torch.ones(tokens, 1, state.shape[-1], dtype=x.dtype)
    rates = torch.zeros(heads) if rate is None else rate
    library.selective_state_update_cpu(
        state,
        x,
        torch.ones(tokens, heads),
        rates,
        ones,
        ones,
        None,
        None,
        None,
        False,
        *slots,
        NO_SLOT,
        out,
        accepted,
        ends,
    )


def _pool(values: Sequence[float]) -> torch.Tensor:
    """Return slots of one head with one row, each filled with its value."""
    return torch.tensor(values, dtype=torch.float32)[:, None, None, None].repeat(1, 1, 1, WIDTH)


@cases("selective_state_update_cpu", dtype=[torch.bfloat16, torch.float16])
def selective_state_update_rest(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
    """States of 20 numbers of 16 bits, in a process of its own: it may be the end of it."""
    state = shared(draw.guarded(draw.integers((1, 2, 3, 20), 0, 8).to(dtype)))
    x = draw.integers((1, 2, 3), 0, 8).float()
    out = shared(draw.output(x.shape, torch.float32))
    after = state + x[..., None].to(dtype)

    def run() -> dict[str, torch.Tensor]:
        run_ranks(library, [lambda: _update(library, state, x, out)])
        return {"state": state, "out": out}

    return Call(run, lambda: {"state": Exact(after), "out": Exact(after.float().sum(-1))})


@cases("selective_state_update_cpu")
def selective_state_update_source(library: Any, draw: Draw) -> Call:
    """A state that is read from one slot and written to another stays as it is in the first."""
    state, x = draw.guarded(_pool([9, 5, 9])), torch.ones(1, 1, 1)
    out, slots = draw.output(x.shape, torch.float32), [torch.tensor([each], dtype=torch.int32) for each in (1, 2)]

    def run() -> dict[str, torch.Tensor]:
        _update(library, state, x, out, slots=slots)
        return {"state": state, "out": out}

    return Call(run, lambda: {"state": Exact(_pool([9, 5, 6])), "out": Exact(torch.full((1, 1, 1), 6.0 * WIDTH))})


@cases("selective_state_update_cpu", layout=["whole", "columns", "in place", "unkept"])
def selective_state_update_accepted(library: Any, draw: Draw, *, layout: str) -> Call:
    """Two sequences with two drafts: each goes on from the state behind its last accepted token, and keeps each.

    The table of slots may be some columns of a wider one, and stands for both where only the slots to read are given.
    A state that has no slot to be kept in is not kept, but the next token goes on from it.
    """
    state, x = draw.guarded(_pool([9, 10, 20, 30, 40])), torch.ones(4, 1, 1)
    out, table = draw.output(x.shape, torch.float32), torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)
    accepted, ends = (torch.tensor(each, dtype=torch.int32) for each in ([2, 1], [0, 2, 4]))
    target: torch.Tensor | None = table
    if layout == "columns":
        table = target = torch.tensor([[1, 2, 0], [3, 4, 0]], dtype=torch.int32)[:, :2]
    elif layout == "in place":
        target = None
    elif layout == "unkept":
        target = torch.tensor([[NO_SLOT, 2], [NO_SLOT, 4]], dtype=torch.int32)

    def run() -> dict[str, torch.Tensor]:
        _update(library, state, x, out, slots=(table, target), accepted=accepted, ends=ends)
        return {"state": state, "out": out}

    def expected() -> dict[str, Exact]:
        sums = torch.tensor([21.0, 22, 31, 32])[:, None, None] * WIDTH
        kept = [9, 10, 22, 30, 32] if layout == "unkept" else [9, 21, 22, 31, 32]
        return {"state": Exact(_pool(kept)), "out": Exact(sums)}

    return Call(run, expected)


@cases("selective_state_update_cpu")
def selective_state_update_components(library: Any, draw: Draw) -> Call:
    """A step, its bias and a skip for each component of a head."""
    state, x = draw.guarded(torch.full((1, 2, 3, WIDTH), 5.0)), torch.ones(1, 2, 3)
    step, bias, skip = (draw.integers((2, 3), 0, 8).float() for _ in range(3))
    out, ones = draw.output(x.shape, torch.float32), torch.ones(1, 2, WIDTH)

    def run() -> dict[str, torch.Tensor]:
        options = (skip, None, bias, False, None, None, NO_SLOT, out, None, None)
        library.selective_state_update_cpu(state, x, step[None], torch.zeros(2), ones, ones, *options)
        return {"state": state, "out": out}

    def expected() -> dict[str, Exact]:
        after = 5 + (step + bias)
        return {
            "state": Exact(after[None, ..., None].expand(1, 2, 3, WIDTH).clone()),
            "out": Exact((after * WIDTH + skip)[None]),
        }

    return Call(run, expected)


@cases("selective_state_update_cpu")
def selective_state_update_rates(library: Any, draw: Draw) -> Call:
    """A decay for each component of a state, as Mamba-1 has: the odd ones are forgotten, the even ones kept."""
    state, x = draw.guarded(_pool([5])), torch.ones(1, 1, 1)
    out = draw.output(x.shape, torch.float32)
    even = (torch.arange(WIDTH) % 2 == 0).float()
    rate = (-1e4 * (1 - even))[None, None]

    def run() -> dict[str, torch.Tensor]:
        _update(library, state, x, out, rate=rate)
        return {"state": state, "out": out}

    def expected() -> dict[str, Exact]:
        after = 1 + 5 * even
        return {"state": Exact(after[None, None, None]), "out": Exact(after.sum()[None, None, None])}

    return Call(run, expected)
