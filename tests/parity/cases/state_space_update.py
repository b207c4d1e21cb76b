"""Selective state space models: one or a few new tokens of each sequence, whose state is in a slot of a pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cases.pools import offsets, pool
from cases.state_space import DTYPES, SIZES, Layer, draw_layer, put, repeated_for, together, unchanged
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact, Expected, Near

NO_SLOT = 0
VECTOR = 8


def _is_aligned(dtype: torch.dtype, states: int) -> bool:
    """Return whether rows of a state begin where kernels for 16 bits can write: they crash if not."""
    return dtype == torch.float32 or states < VECTOR or states % VECTOR == 0


def _update(
    library: Any,
    layer: Layer,
    pooled: torch.Tensor,
    out: torch.Tensor,
    *,
    softplus: bool = True,
    source: torch.Tensor,
    target: torch.Tensor | None = None,
    accepted: torch.Tensor | None = None,
    ends: torch.Tensor | None = None,
) -> None:
    """Call the operator as models do: one decay and one step for all components of a head."""
    head, states = pooled.shape[2:]
    library.selective_state_update_cpu(
        pooled,
        layer.x,
        repeated_for(layer.step, head),
        repeated_for(layer.rate, head, states),
        layer.key,
        layer.query,
        repeated_for(layer.skip, head),
        layer.gate,
        repeated_for(layer.bias, head),
        softplus,
        source,
        target,
        NO_SLOT,
        out,
        accepted,
        ends,
    )


@cases(
    "selective_state_update_cpu",
    # The data type of the states.
    dtype=DTYPES,
    inputs=DTYPES,
    result=DTYPES,
    sizes=SIZES,
    options=["bDz", "b", "D", "z", ""],
    softplus=[True, False],
    layout=["slots", "gaps", "rows"],
    where=lambda dtype, inputs, result, sizes, options, softplus, layout: (
        _is_aligned(dtype, sizes[-1])
        and result in {inputs, torch.float32}
        and (options == "bDz" or (softplus and layout == "slots" and sizes[-1] == 9))
        and (softplus or sizes[-1] in {7, 16})
        and (layout == "slots" or sizes[-1] in {8, 33})
        and (result == inputs or sizes[-1] in {9, 16})
    ),
)
def selective_state_update_cpu(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    inputs: torch.dtype,
    result: torch.dtype,
    sizes: tuple[int, int, int, int],
    options: str,
    softplus: bool,
    layout: str,
) -> Call:
    """One token for each sequence; one of them is padding, whose row of the output stays as it is."""
    batch, (heads, _, head, states) = 3, sizes
    layer = draw_layer(draw, batch, sizes, inputs, options, positive=not softplus)
    values = draw.normal((batch + 2, heads, head, states), dtype, 3.0)
    if layout == "rows":
        pooled, gaps = draw.strided(values), torch.empty(0)
    else:
        pooled, gaps = pool(draw, values, 24 if layout == "gaps" else 0)
    slots = 1 + draw.permutation(batch + 1)[:batch].to(torch.int32)
    slots[1] = NO_SLOT
    out = draw.guarded(draw.normal(layer.x.shape, result))

    def run() -> dict[str, torch.Tensor]:
        _update(library, layer, pooled, out, softplus=softplus, source=slots)
        return {"out": out, "state": pooled, "gaps": gaps}

    def expected() -> Mapping[str, Expected]:
        after, wanted = unchanged(pooled), []
        for token, slot in enumerate(slots.tolist()):
            if slot == NO_SLOT:
                wanted.append(unchanged(out[token]))
                continue
            ((found, state),) = layer.expected(token, token + 1, pooled[slot], softplus=softplus)
            wanted.append(found)
            put(after, slot, state)
        return {"out": together(wanted, states + 3), "state": after, "gaps": Exact(gaps.clone())}

    return Call(run, expected)


@cases(
    "selective_state_update_cpu",
    dtype=DTYPES,
    inputs=DTYPES,
    sizes=[(5, 1, 6, 56)],
    deep={"sizes": lambda st: st.tuples(st.integers(1, 5), st.just(1), st.integers(1, 40), st.integers(1, 140))},
    where=lambda dtype, sizes, **_: _is_aligned(dtype, sizes[-1]),
)
def selective_state_update_cpu_sizes(
    library: Any, draw: Draw, *, dtype: torch.dtype, inputs: torch.dtype, sizes: tuple[int, int, int, int]
) -> Call:
    """Any sizes."""
    rest: dict[str, Any] = {"result": inputs, "options": "bDz", "softplus": True, "layout": "gaps"}
    return selective_state_update_cpu(library, draw, dtype=dtype, inputs=inputs, sizes=sizes, **rest)


@cases("selective_state_update_cpu", dtype=DTYPES, batch=[1, 2])
def selective_state_update_cpu_plain(library: Any, draw: Draw, *, dtype: torch.dtype, batch: int) -> Call:
    """Steps, decays, skips and biases as they are, not repeated; each sequence has the slot of its number."""
    layer = draw_layer(draw, batch, (4, 2, 3, 16), dtype, "bDz", positive=False)
    pooled, out = draw.guarded(draw.normal((batch, 4, 3, 16), dtype)), draw.output(layer.x.shape, dtype)

    def run() -> dict[str, torch.Tensor]:
        inputs = (layer.x, layer.step, layer.rate, layer.key, layer.query, layer.skip, layer.gate, layer.bias)
        library.selective_state_update_cpu(pooled, *inputs, True, None, None, NO_SLOT - 1, out, None, None)
        return {"out": out, "state": pooled}

    def expected() -> Mapping[str, Expected]:
        steps = [layer.expected(row, row + 1, pooled[row], softplus=True)[0] for row in range(batch)]
        return {
            "out": together([found for found, _ in steps], 16 + 3),
            "state": together([state for _, state in steps]),
        }

    return Call(run, expected)


@cases(
    "selective_state_update_cpu",
    dtype=DTYPES,
    inputs=DTYPES,
    sizes=[(2, 1, 3, 7), (4, 2, 5, 40)],
    lengths=[(1, 1), (3, 0, 5), (17,)],
    moved=[True, False],
    where=lambda dtype, inputs, lengths, **_: inputs in {dtype, torch.bfloat16} or lengths == (17,),
)
def selective_state_update_cpu_sequences(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    inputs: torch.dtype,
    sizes: tuple[int, int, int, int],
    lengths: tuple[int, ...],
    moved: bool,
) -> Call:
    """Several tokens for each sequence, whose state may go to another slot than it came from.

    Then the slot that it came from is not judged: kernels leave the new state there, too.
    """
    count, (heads, _, head, states) = len(lengths), sizes
    layer = draw_layer(draw, sum(lengths), sizes, inputs, "bDz", positive=False)
    pooled = draw.guarded(draw.normal((2 * count + 2, heads, head, states), dtype))
    order = 1 + draw.permutation(2 * count + 1).to(torch.int32)
    source = order[:count].clone()
    target = order[count : 2 * count].clone() if moved else source
    kept = _others(pooled, source) if moved else torch.arange(len(pooled))
    out, ends = draw.output(layer.x.shape, inputs), offsets(lengths)

    def run() -> dict[str, torch.Tensor]:
        _update(library, layer, pooled, out, source=source, target=target if moved else None, ends=ends)
        return {"sequence_out": out, "sequence_state": pooled[kept]}

    def expected() -> Mapping[str, Expected]:
        after, wanted = unchanged(pooled), []
        for number, (start, end) in enumerate(zip(ends.tolist(), ends[1:].tolist(), strict=False)):
            steps = layer.expected(start, end, pooled[source[number]], softplus=True)
            wanted += [found for found, _ in steps]
            put(after, int(target[number]), steps[-1][1] if steps else unchanged(pooled[source[number]]))
        return {"sequence_out": together(wanted, max(lengths)), "sequence_state": _part(after, kept, max(lengths))}

    return Call(run, expected)


def _others(pooled: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Return the slots of a pool that are not among some."""
    return torch.tensor([slot for slot in range(len(pooled)) if slot not in slots.tolist()])


def _part(pooled: Near, slots: torch.Tensor, length: int) -> Near:
    assert pooled.magnitude is not None
    return Near(pooled.value[slots], pooled.magnitude[slots], length)


@cases("selective_state_update_cpu", dtype=DTYPES, tokens=[1, 2, 5])
def selective_state_update_cpu_drafts(library: Any, draw: Draw, *, dtype: torch.dtype, tokens: int) -> Call:
    """As many drafts for each sequence; the state after each goes to a slot of its own.

    As in ``selective_state_update_cpu_sequences``, the slot that a state came from is not judged.
    """
    batch, (heads, groups, head, states) = 2, (4, 2, 3, 24)
    layer = draw_layer(draw, batch * tokens, (heads, groups, head, states), torch.bfloat16, "bDz", positive=False)
    pooled = draw.guarded(draw.normal((2 + batch * (1 + tokens), heads, head, states), dtype))
    order = 1 + draw.permutation(len(pooled) - 1).to(torch.int32)
    source, target = order[:batch].clone(), order[batch : batch * (1 + tokens)].reshape(batch, tokens).clone()
    kept, out = _others(pooled, source), draw.output(layer.x.shape, torch.bfloat16)
    accepted, ends = torch.ones(batch, dtype=torch.int32), offsets((tokens,) * batch)

    def run() -> dict[str, torch.Tensor]:
        _update(library, layer, pooled, out, source=source, target=target, accepted=accepted, ends=ends)
        return {"sequence_out": out, "sequence_state": pooled[kept]}

    def expected() -> Mapping[str, Expected]:
        after, wanted = unchanged(pooled), []
        for number, slot in enumerate(source.tolist()):
            first = number * tokens
            steps = layer.expected(first, first + tokens, pooled[slot], softplus=True)
            for place, (found, state) in zip(target[number].tolist(), steps, strict=True):
                wanted.append(found)
                put(after, place, state)
        return {"sequence_out": together(wanted, tokens), "sequence_state": _part(after, kept, tokens)}

    return Call(run, expected)
