"""Gated delta rule of drafts: the state after each token is kept, so that the next step can go on from any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cases.delta_rule import DTYPES, STATES, draw_layer, put, together, unchanged
from cases.pools import offsets, only_float32, pool
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected, Near


@cases(
    "fused_sigmoid_gating_delta_rule_update_spec_cpu",
    # The data type of the states.
    dtype=STATES,
    inputs=DTYPES,
    rate=["float32", "same"],
    heads=[(1, 1), (2, 4)],
    sizes=[(1, 1), (5, 15), (16, 16), (9, 33), (3, 70), (64, 64)],
    lengths=[(1,), (4, 4), (3, 0, 1)],
    normalise=[True, False],
    gap=[0, 40],
    where=lambda dtype, inputs, rate, heads, sizes, normalise, gap, lengths: (
        (heads == (2, 4) or sizes == (16, 16))
        and (rate == "same") == (normalise and not gap)
        and (inputs == torch.bfloat16 or (sizes[1] in {33, 16} and dtype == torch.float32))
        and (normalise or sizes[1] in {15, 70})
        and (not gap or sizes[1] in {15, 16})
        and (dtype != torch.float16 or sizes[1] in {33, 64})
        and (sizes[0] < 64 or sum(lengths) != 8)
    ),
)
def fused_sigmoid_gating_delta_rule_update_spec_cpu(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    inputs: torch.dtype,
    rate: str,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    lengths: tuple[int, ...],
    normalise: bool,
    gap: int,
) -> Call:
    """A sequence goes on from the state after the last draft that was accepted; of none, from its first slot."""
    count, tokens, drafts = len(lengths), sum(lengths), max(lengths) + 1
    rates = torch.float32 if rate == "float32" else inputs
    layer = draw_layer(draw, tokens, heads, sizes, inputs, rates, normalise=normalise, mixed=True)
    pooled, gaps = pool(draw, draw.normal((count * drafts + 2, heads[1], *sizes), dtype), gap)
    slots = draw.permutation(len(pooled))[: count * drafts].to(torch.int32).reshape(count, drafts)
    accepted = draw.integers([count], 0, drafts + 1, torch.int32)
    ends, length = offsets(lengths), max(lengths) * sizes[0]

    def update(states: torch.Tensor) -> torch.Tensor:
        parts = (layer.query, layer.key, layer.value, layer.a, layer.b, states, slots, accepted, ends)
        out: torch.Tensor = library.fused_sigmoid_gating_delta_rule_update_spec_cpu(
            layer.rate, layer.bias, *parts, normalise
        )
        return out

    def run() -> dict[str, torch.Tensor]:
        return {"out": update(pooled), "state": pooled, "gaps": gaps}

    def expected() -> Mapping[str, Expected]:
        after, wanted = unchanged(pooled), []
        for number, (start, end) in enumerate(zip(ends.tolist(), ends[1:].tolist(), strict=False)):
            source = pooled[int(slots[number, max(int(accepted[number]) - 1, 0)])]
            steps = layer.expected(start, end, source, normalise=normalise)
            for place, (found, new) in zip(slots[number].tolist(), steps, strict=False):
                wanted.append(found)
                put(after, place, new)
        if dtype == torch.float32:
            return {
                "out": together(wanted, length),
                "state": Near(after.value, after.magnitude, length),
                "gaps": Exact(gaps.clone()),
            }
        return {
            "out": together(wanted, max(lengths)),
            "state": Near(after.value, after.magnitude, max(lengths)),
            "gaps": Exact(gaps.clone()),
        }

    if only_float32(update, pooled):
        return refused(run)
    return Call(run, expected, formats={"out": inputs})


@cases(
    "fused_sigmoid_gating_delta_rule_update_spec_cpu",
    dtype=STATES,
    inputs=DTYPES,
    sizes=[(11, 47)],
    lengths=[(2, 3)],
    deep={
        "sizes": lambda st: st.tuples(st.integers(1, 80), st.integers(1, 80)),
        "lengths": lambda st: st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
    },
)
def fused_sigmoid_gating_delta_rule_update_spec_cpu_sizes(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Any sizes."""
    rest: dict[str, Any] = {"rate": "float32", "heads": (1, 3), "normalise": True, "gap": 40}
    return fused_sigmoid_gating_delta_rule_update_spec_cpu(library, draw, **rest, **parameters)


@cases(
    "fused_sigmoid_gating_delta_rule_update_spec_cpu",
    problem=["float32", "state", "ends", "slots", "slots' format", "heads", "shape", "packed"],
)
def fused_sigmoid_gating_delta_rule_update_spec_cpu_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """What kernels check for."""
    dtype = torch.float32 if problem == "float32" else torch.bfloat16
    layer = draw_layer(draw, 4, (2, 3 if problem == "heads" else 4), (8, 16), dtype, dtype, normalise=True, mixed=False)
    pooled = torch.zeros(
        8,
        layer.value.shape[1],
        *((16, 8) if problem == "shape" else (8, 16)),
        dtype=torch.float64 if problem == "state" else torch.float32,
    )
    if problem == "packed":
        pooled = draw.strided(pooled)
    arguments = (
        pooled,
        torch.arange(2 if problem == "slots" else 8).reshape(2, -1).to(torch.int64 if "'" in problem else torch.int32),
        torch.ones(2, dtype=torch.int32),
        torch.tensor([0, 5, 4] if problem == "ends" else [0, 2, 4], dtype=torch.int32),
        True,
    )
    parts = (layer.rate, layer.bias, layer.query, layer.key, layer.value, layer.a, layer.b)
    return refused(lambda: library.fused_sigmoid_gating_delta_rule_update_spec_cpu(*parts, *arguments))


@cases(
    "fused_sigmoid_gating_delta_rule_update_cpu",
    problem=["float32", "state", "rates", "slots", "heads", "shape", "packed"],
)
def fused_sigmoid_gating_delta_rule_update_cpu_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """What kernels check for."""
    dtype = torch.float32 if problem == "float32" else torch.bfloat16
    rates = torch.float16 if problem == "rates" else torch.float32
    layer = draw_layer(draw, 2, (2, 3 if problem == "heads" else 4), (8, 16), dtype, rates, normalise=True, mixed=False)
    sizes = (16, 8) if problem == "shape" else (8, 16)
    pooled = torch.zeros(2, layer.value.shape[1], *sizes, dtype=torch.float64 if problem == "state" else torch.float32)
    if problem == "packed":
        pooled = draw.strided(pooled)
    slots = torch.arange(2, dtype=torch.int64 if problem == "slots" else torch.int32)
    parts = (layer.query[None], layer.key[None], layer.value[None], layer.a, layer.b, pooled, slots, offsets((1, 1)))
    return refused(lambda: library.fused_sigmoid_gating_delta_rule_update_cpu(layer.rate, layer.bias, *parts, True))
