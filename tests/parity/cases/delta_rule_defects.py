"""Calls that gated delta rules take and get wrong; docs/findings.md has one heading for each."""

from __future__ import annotations

from typing import Any

import torch

from cases.delta_rule import softplus
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact

SIZE = 64
EPSILON = 1e-6


def _indices(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def _layer(draw: Draw, tokens: int, heads: int) -> tuple[torch.Tensor, ...]:
    """Return query, key, value, decay and share of new values."""
    query, key, value = (draw.normal((1, tokens, heads, SIZE), torch.bfloat16) for _ in range(3))
    return query, key, value, -draw.uniform((1, tokens, heads), 0, 1), draw.uniform((1, tokens, heads), 0, 1).bfloat16()


@cases("chunk_gated_delta_rule_cpu", poison=["nan", "inf"], place=["value", "key"])
def chunk_gated_delta_rule_neighbour(library: Any, draw: Draw, *, poison: str, place: str) -> Call:
    """One sequence behind another, worked on by the same thread, does not see what the other has."""
    query, key, value, decay, share = _layer(draw, SIZE + 5, 1)
    {"value": value, "key": key}[place][0, 20] = float(poison)

    def run() -> dict[str, torch.Tensor]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        state = torch.zeros(2, 1, SIZE, SIZE)
        ends = _indices(0, SIZE, SIZE + 5)
        found = library.chunk_gated_delta_rule_cpu(
            query, key, value, decay, share, state, True, ends, False, True, _indices(0, 1), EPSILON
        )
        torch.set_num_threads(threads)
        return {"finite": found[0][0, SIZE:].isfinite().all() & state[1].isfinite().all()}

    return Call(run, lambda: {"finite": Exact(torch.tensor(True))})


@cases("chunk_gated_delta_rule_cpu")
def chunk_gated_delta_rule_heads_first(library: Any, draw: Draw) -> Call:
    """Queries and keys whose heads lie apart in memory: the same result as without that."""
    query, key, value, decay, share = _layer(draw, 5, 2)
    apart = [each.transpose(1, 2).contiguous().transpose(1, 2) for each in (query, key)]

    def call(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(1, 2, SIZE, SIZE)
        return library.chunk_gated_delta_rule_cpu(
            one, other, value, decay, share, state, True, _indices(0, 5), False, True, _indices(0), EPSILON
        )[0]

    return Call(lambda: {"out": call(*apart)}, lambda: {"out": Exact(call(query, key))})


def _decode(library: Any, rate: torch.Tensor, share: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Add one token to each sequence, whose vectors are all ones."""
    batch, heads = rate.shape
    ones = [torch.ones(1, batch, count, 16, dtype=torch.bfloat16) for count in (1, 1, heads)]
    slots = torch.arange(batch + 1, dtype=torch.int32)
    bias = torch.zeros(heads, dtype=torch.bfloat16)
    return library.fused_sigmoid_gating_delta_rule_update_cpu(
        torch.zeros(heads), bias, *ones, rate, share, state, slots[:-1], slots, True, 1.0, 20.0
    )


@cases("fused_sigmoid_gating_delta_rule_update_cpu", "fused_gdn_gating_cpu")
def fused_gdn_gating_columns(library: Any, draw: Draw) -> Call:
    """Rates and shares that are columns of one tensor: the same result as without that, or a refusal."""
    both = draw.normal((3, 8), torch.bfloat16)
    rate, share = both[:, :4], both[:, 4:]

    def call(one: torch.Tensor, other: torch.Tensor) -> dict[str, torch.Tensor]:
        state, bias = torch.ones(3, 4, 16, 16), torch.zeros(4, dtype=torch.bfloat16)
        gates = library.fused_gdn_gating_cpu(torch.zeros(4), rate.contiguous(), other, bias)
        out = _decode(library, one, other, state)
        return {"out": out, "state": state, "share": gates[1]}

    def expected() -> dict[str, Exact]:
        return {name: Exact(each) for name, each in call(rate.contiguous(), share.contiguous()).items()}

    return Call(lambda: call(rate, share), expected)


@cases("fused_sigmoid_gating_delta_rule_update_cpu", beta=[0.5, 2.0])
def fused_sigmoid_gating_delta_rule_steep(library: Any, draw: Draw, *, beta: float) -> Call:
    """A softplus that is flatter, or steeper, than that of one."""
    return softplus(library, draw, beta=beta)
