"""Gated delta rule of one new token, or a few drafts, of each sequence, and its gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from cases.pools import offsets, only_float32, pool
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected, Near
from oracles import delta_rule

DTYPES = [torch.bfloat16, torch.float16]
STATES = [torch.float32, torch.bfloat16, torch.float16]
EPSILON = 1e-5
"""What is added to the sum of squares; fixed in kernels."""
# Key heads and value heads, then the sizes of both. Kernels take 16 or 32 components of a value at a time.
HEADS = [(1, 1), (1, 3), (2, 4), (16, 32)]
SIZES = [(1, 1), (5, 15), (16, 16), (7, 17), (32, 31), (9, 33), (3, 70), (64, 64), (128, 128)]


@dataclass(frozen=True)
class Layer:
    """The inputs of one layer for some tokens; heads come second."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    rate: torch.Tensor
    bias: torch.Tensor

    def expected(
        self, first: int, end: int, state: torch.Tensor, *, normalise: bool, threshold: float = 20.0, beta: float = 1.0
    ) -> list[tuple[Near, Near]]:
        """Return what comes out of each token of one sequence, and the state after it."""
        query, key = self.query[first:end].double(), self.key[first:end].double()
        if normalise:
            query, key = delta_rule.normalised(query, EPSILON), delta_rule.normalised(key, EPSILON)
        a, bias = self.a[first:end].double(), self.bias.double()
        decay = delta_rule.decay(self.rate.double(), a, bias, threshold, beta)
        strength = torch.sigmoid(self.b[first:end].double())
        value = self.value[first:end].double()
        return list(delta_rule.gated_delta_rule(query, key, value, decay.value, strength, state.double()))


def draw_layer(
    draw: Draw,
    tokens: int,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    dtype: torch.dtype,
    rate: torch.dtype,
    *,
    normalise: bool,
    mixed: bool,
) -> Layer:
    """Draw a layer; ``mixed`` makes query, key and value parts of the rows of one product, as in models."""
    (key_heads, value_heads), (key_size, value_size) = heads, sizes
    widths = (key_heads * key_size, key_heads * key_size, value_heads * value_size)
    parts = [draw.normal((tokens, width), dtype) for width in widths]
    if not normalise:
        parts[1] = parts[1] / key_size**0.5
    query, key, value = torch.cat(parts, dim=-1).split(widths, dim=-1) if mixed else parts
    return Layer(
        query.unflatten(1, (key_heads, key_size)),
        key.unflatten(1, (key_heads, key_size)),
        value.unflatten(1, (value_heads, value_size)),
        draw.normal((tokens, value_heads), dtype, 2.0),
        draw.normal((tokens, value_heads), dtype, 2.0),
        draw.uniform([value_heads], -4.0, 1.5, rate),
        draw.normal([value_heads], dtype),
    )


def together(values: list[Near], length: int = 1) -> Near:
    """Return what is expected of each token as that of all."""
    magnitudes = [each.magnitude for each in values if each.magnitude is not None]
    return Near(torch.stack([each.value for each in values]), torch.stack(magnitudes), length)


def unchanged(values: torch.Tensor, length: int = 1) -> Near:
    """Expect that values stay as they are."""
    return Near(values.double().clone(), torch.zeros(values.shape, dtype=torch.float64), length)


def put(pooled: Near, slot: int, state: Near) -> None:
    """Expect a state in a slot."""
    assert pooled.magnitude is not None
    assert state.magnitude is not None
    pooled.value[slot], pooled.magnitude[slot] = state.value, state.magnitude


@cases(
    "fused_gdn_gating_cpu",
    dtype=DTYPES,
    rate=["float32", "same"],
    tokens=[0, 1, 7],
    heads=[1, 4, 15, 16, 17, 32, 48, 65],
    scale=[1.0, 30.0],
    where=lambda rate, tokens, heads, **_: (
        (rate == "float32" or heads in {17, 65}) and (tokens != 0 or heads == 4) and (tokens == 7 or heads < 32)
    ),
    deep={"tokens": lambda st: st.just(7), "heads": lambda st: st.integers(1, 140)},
)
def fused_gdn_gating_cpu(
    library: Any, draw: Draw, *, dtype: torch.dtype, rate: str, tokens: int, heads: int, scale: float
) -> Call:
    """Ordinary gates, and ones on both sides of where softplus is linear."""
    rates = draw.uniform([heads], -4.0, 3.0, torch.float32 if rate == "float32" else dtype)
    a, b = draw.normal((tokens, heads), dtype, scale), draw.normal((tokens, heads), dtype, scale)
    bias = draw.normal([heads], dtype)

    def run() -> dict[str, torch.Tensor]:
        decay, strength = library.fused_gdn_gating_cpu(rates, a, b, bias)
        return {"decay": decay, "strength": strength}

    def expected() -> Mapping[str, Expected]:
        near = delta_rule.decay(rates.double(), a.double(), bias.double())
        assert near.magnitude is not None
        return {
            "decay": Near(near.value[None], near.magnitude[None]),
            "strength": Near(torch.sigmoid(b.double())[None]),
        }

    return Call(run, expected)


@cases("fused_gdn_gating_cpu", problem=["float32", "rows", "rates", "heads", "bias"])
def fused_gdn_gating_cpu_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """What kernels check for."""
    dtype = torch.float32 if problem == "float32" else torch.bfloat16
    a = draw.normal((3, 8), dtype)
    arguments = (
        draw.normal([8], torch.float16 if problem == "rates" else torch.float32),
        draw.strided(a) if problem == "rows" else a,
        draw.normal((3, 9 if problem == "heads" else 8), dtype),
        draw.normal([8], torch.float32 if problem == "bias" else dtype),
    )
    return refused(lambda: library.fused_gdn_gating_cpu(*arguments))


@cases(
    "fused_sigmoid_gating_delta_rule_update_cpu",
    dtype=DTYPES,
    state=STATES,
    rate=["float32", "same"],
    heads=HEADS,
    sizes=SIZES,
    normalise=[True, False],
    # Kernels round each step of the sigmoid to the data type, which changes nothing if it is 1 or 1/2.
    gate=["drawn", "whole"],
    mixed=[True, False],
    gap=[0, 40],
    where=lambda dtype, state, rate, heads, sizes, normalise, gate, mixed, gap: (
        (heads == (2, 4) if sizes[0] < 64 else heads == (1, 3) or (heads == (16, 32) and gate == "drawn" and mixed))
        and (heads != (16, 32) or (dtype == state == torch.bfloat16 and rate == "float32" and normalise and gap))
        and (rate == "same") == (normalise and mixed and not gap)
        and (dtype == torch.bfloat16 or (sizes[1] in {17, 33} and mixed))
        and (state == torch.float32 or (gate == "drawn" and normalise and mixed))
        and (rate == "same" or mixed == bool(gap))
        and (normalise or sizes[1] in {15, 33})
    ),
)
def fused_sigmoid_gating_delta_rule_update_cpu(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    state: torch.dtype,
    rate: str,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    normalise: bool,
    gate: str,
    mixed: bool,
    gap: int,
) -> Call:
    """One token for each sequence; its query and key are made unit vectors by the operator, or before."""
    batch = 2
    rates = torch.float32 if rate == "float32" else dtype
    layer = draw_layer(draw, batch, heads, sizes, dtype, rates, normalise=normalise, mixed=mixed)
    if gate == "whole":
        layer.b.copy_(torch.where(layer.b > 0, 100.0, 0.0))
    pooled, gaps = pool(draw, draw.normal((batch + 2, heads[1], *sizes), state), gap)
    slots = draw.permutation(batch + 2)[:batch].to(torch.int32)
    suffix = "_whole" if gate == "whole" else ""
    ends = offsets((1,) * batch)

    def update(states: torch.Tensor) -> torch.Tensor:
        parts = (layer.query[None], layer.key[None], layer.value[None], layer.a, layer.b, states, slots, ends)
        out: torch.Tensor = library.fused_sigmoid_gating_delta_rule_update_cpu(
            layer.rate, layer.bias, *parts, normalise
        )
        return out

    def run() -> dict[str, torch.Tensor]:
        return {f"out{suffix}": update(pooled), f"state{suffix}": pooled, "gaps": gaps}

    def expected() -> Mapping[str, Expected]:
        after, wanted = unchanged(pooled), []
        for row, slot in enumerate(slots.tolist()):
            ((found, new),) = layer.expected(row, row + 1, pooled[slot], normalise=normalise)
            wanted.append(found)
            put(after, slot, new)
        near = together(wanted, sizes[0])
        assert near.magnitude is not None
        return {
            f"out{suffix}": Near(near.value[:, None], near.magnitude[:, None], near.length),
            f"state{suffix}": Near(after.value, after.magnitude, sizes[0]),
            "gaps": Exact(gaps.clone()),
        }

    return refused(run) if only_float32(update, pooled) else Call(run, expected)


@cases(
    "fused_sigmoid_gating_delta_rule_update_cpu",
    dtype=DTYPES,
    state=STATES,
    sizes=[(11, 47)],
    deep={"sizes": lambda st: st.tuples(st.integers(1, 140), st.integers(1, 140))},
)
def fused_sigmoid_gating_delta_rule_update_cpu_sizes(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Any sizes."""
    rest: dict[str, Any] = {"rate": "float32", "heads": (2, 4), "normalise": True, "mixed": True}
    return fused_sigmoid_gating_delta_rule_update_cpu(library, draw, gate="whole", gap=40, **rest, **parameters)


@cases("fused_sigmoid_gating_delta_rule_update_cpu", threshold=[20.0, 0.5])
def fused_sigmoid_gating_delta_rule_update_cpu_threshold(library: Any, draw: Draw, *, threshold: float) -> Call:
    """Softplus is linear from the threshold on."""
    return softplus(library, draw, threshold=threshold)


def softplus(library: Any, draw: Draw, *, threshold: float = 20.0, beta: float = 1.0) -> Call:
    """Return a call whose states show what softplus gives."""
    batch, heads, sizes = 3, (2, 4), (8, 16)
    layer = draw_layer(draw, batch, heads, sizes, torch.bfloat16, torch.float32, normalise=True, mixed=False)
    layer.b.zero_()
    layer.a.copy_(draw.uniform(layer.a.shape, 0.0, 2.0))
    layer.bias.zero_()
    pooled = draw.guarded(draw.normal((batch, heads[1], *sizes)))

    def run() -> dict[str, torch.Tensor]:
        parts = (layer.query[None], layer.key[None], layer.value[None], layer.a, layer.b)
        ends, slots = offsets((1,) * batch), torch.arange(batch, dtype=torch.int32)
        library.fused_sigmoid_gating_delta_rule_update_cpu(
            layer.rate, layer.bias, *parts, pooled, slots, ends, True, beta, threshold
        )
        return {"state_whole": pooled}

    def expected() -> Mapping[str, Expected]:
        options: dict[str, Any] = {"normalise": True, "threshold": threshold, "beta": beta}
        rows = [layer.expected(row, row + 1, pooled[row], **options)[0] for row in range(batch)]
        return {"state_whole": together([new for _, new in rows], sizes[0])}

    return Call(run, expected)


@cases("fused_sigmoid_gating_delta_rule_update_cpu", state=STATES, poison=["nan", "inf"])
def fused_sigmoid_gating_delta_rule_update_cpu_poisoned(
    library: Any, draw: Draw, *, state: torch.dtype, poison: str
) -> Call:
    """What is not a number, or infinite, in a component of a value stays in it."""
    heads, sizes = (2, 4), (8, 33)
    layer = draw_layer(draw, 2, heads, sizes, torch.bfloat16, torch.float32, normalise=True, mixed=False)
    layer.b.zero_()
    layer.value[1, 2, 5] = float(poison)
    pooled = draw.guarded(draw.normal((2, heads[1], *sizes), state))

    def update(states: torch.Tensor) -> torch.Tensor:
        parts = (layer.query[None], layer.key[None], layer.value[None], layer.a, layer.b, states)
        ends, slots = offsets((1, 1)), torch.arange(2, dtype=torch.int32)
        out: torch.Tensor = library.fused_sigmoid_gating_delta_rule_update_cpu(
            layer.rate, layer.bias, *parts, slots, ends, True
        )
        return out

    def run() -> dict[str, torch.Tensor]:
        return {"out_whole": update(pooled)[:, 0], "state_whole": pooled}

    def expected() -> Mapping[str, Expected]:
        rows = [layer.expected(row, row + 1, pooled[row], normalise=True)[0] for row in range(2)]
        return {
            "out_whole": together([found for found, _ in rows], sizes[0]),
            "state_whole": together([new for _, new in rows], sizes[0]),
        }

    if only_float32(update, pooled):
        return refused(run)
    return Call(run, expected, formats={"out_whole": torch.bfloat16})
