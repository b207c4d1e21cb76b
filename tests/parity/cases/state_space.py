"""Selective state space models: whole prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from cases.pools import offsets
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Expected, Near
from oracles import state_space

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# Heads, groups, head size, state size. Vectors have eight elements of the state. The last are Mamba-2's and Nemotron's.
SIZES = [
    (1, 1, 1, 1),
    (2, 1, 3, 7),
    (2, 2, 4, 8),
    (4, 2, 5, 9),
    (3, 3, 2, 15),
    (4, 1, 7, 16),
    (6, 2, 3, 33),
    (8, 1, 64, 128),
    (4, 2, 80, 64),
]


@dataclass(frozen=True)
class Layer:
    """The inputs of one layer for some tokens; ``bias`` and later ones may be missing."""

    x: torch.Tensor
    step: torch.Tensor
    rate: torch.Tensor
    key: torch.Tensor
    query: torch.Tensor
    bias: torch.Tensor | None
    skip: torch.Tensor | None
    gate: torch.Tensor | None

    def expected(self, first: int, end: int, state: torch.Tensor, *, softplus: bool) -> list[tuple[Near, Near]]:
        """Return what comes out of each token of one sequence, and the state after it."""
        tokens = slice(first, end)
        step = state_space.time_step(
            self.step[tokens].double(), None if self.bias is None else self.bias.double(), softplus=softplus
        )
        return list(
            state_space.selective_scan(
                self.x[tokens].double(),
                step,
                self.rate.double(),
                self.key[tokens].double(),
                self.query[tokens].double(),
                None if self.skip is None else self.skip.double(),
                None if self.gate is None else self.gate[tokens].double(),
                state.double(),
            )
        )


def draw_layer(
    draw: Draw, tokens: int, sizes: tuple[int, int, int, int], dtype: torch.dtype, options: str, *, positive: bool
) -> Layer:
    """Draw a layer; ``options`` names the optional inputs that it has: b, D and z.

    Decays are those of Mamba-2: A between -16 and -1 and steps of up to 0.1 at its initialisation, here more.
    """
    heads, groups, head, states = sizes
    step = draw.uniform((tokens, heads), 0.001, 0.5) if positive else draw.normal((tokens, heads), dtype, 2.0)
    return Layer(
        draw.normal((tokens, heads, head), dtype),
        step,
        -draw.uniform([heads], 0.02, 4.0),
        draw.normal((tokens, groups, states), dtype),
        draw.normal((tokens, groups, states), dtype),
        draw.normal([heads]) if "b" in options else None,
        draw.normal([heads]) if "D" in options else None,
        draw.normal((tokens, heads, head), dtype, 3.0) if "z" in options else None,
    )


def together(values: list[Near], length: int = 1) -> Near:
    """Return what is expected of each token, or sequence, as that of all."""
    return Near(
        torch.stack([each.value for each in values]),
        torch.stack([each.magnitude for each in values if each.magnitude is not None]),
        length,
    )


def repeated_for(values: torch.Tensor | None, *sizes: int) -> torch.Tensor | None:
    """Return one value for each head as the model passes it: repeated without memory."""
    if values is None:
        return None
    return values.reshape(*values.shape, *(1 for _ in sizes)).expand(*values.shape, *sizes)


def put(pooled: Near, slot: int, state: Near) -> None:
    """Expect a state in a slot."""
    assert pooled.magnitude is not None
    assert state.magnitude is not None
    pooled.value[slot], pooled.magnitude[slot] = state.value, state.magnitude


def unchanged(values: torch.Tensor) -> Near:
    """Expect that values stay as they are."""
    return Near(values.double().clone(), torch.zeros(values.shape, dtype=torch.float64))


@cases(
    "mamba_chunk_scan_fwd_cpu",
    dtype=DTYPES,
    sizes=SIZES,
    lengths=[(1,), (2, 0, 5), (33, 7), (100,)],
    options=["Dz", "D", "z", ""],
    repeated=[True, False],
    where=lambda sizes, lengths, options, repeated, **_: (
        (sizes[2] < 64 or sum(lengths) < 10)
        and (options == "Dz" or (sizes[-1] == 33 and not repeated))
        and (repeated or sizes[-1] in {9, 33})
        and (lengths != (100,) or sizes[-1] in {16, 33})
    ),
)
def mamba_chunk_scan_fwd_cpu(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    sizes: tuple[int, int, int, int],
    lengths: tuple[int, ...],
    options: str,
    repeated: bool,
) -> Call:
    """Prompts that stand one behind the other; x, B and C are parts of the rows of one product."""
    heads, groups, head, states = sizes
    layer = draw_layer(draw, sum(lengths), sizes, dtype, options, positive=True)
    state = draw.guarded(draw.normal((len(lengths), heads, head, states)))
    out = draw.output(layer.x.shape, dtype)
    ends = offsets(lengths)
    parts = (heads * head, groups * states, groups * states)
    x, key, query = torch.cat([each.flatten(1) for each in (layer.x, layer.key, layer.query)], -1).split(parts, -1)

    def run() -> dict[str, torch.Tensor]:
        library.mamba_chunk_scan_fwd_cpu(
            out,
            state,
            x.unflatten(1, (heads, head)),
            layer.step,
            repeated_for(layer.rate, head, states) if repeated else layer.rate,
            key.unflatten(1, (groups, states)),
            query.unflatten(1, (groups, states)),
            repeated_for(layer.skip, head) if repeated else layer.skip,
            layer.gate,
            ends,
        )
        return {"out": out, "state": state}

    def expected() -> Mapping[str, Expected]:
        wanted, after = [], unchanged(state)
        for number, (start, end) in enumerate(zip(ends.tolist(), ends[1:].tolist(), strict=False)):
            steps = layer.expected(start, end, state[number], softplus=False)
            wanted += [found for found, _ in steps]
            if steps:
                put(after, number, steps[-1][1])
        return {"out": together(wanted, states + 3), "state": after}

    return Call(run, expected)


@cases(
    "mamba_chunk_scan_fwd_cpu",
    dtype=DTYPES,
    sizes=[(5, 1, 6, 27)],
    lengths=[(4, 9)],
    deep={
        "sizes": lambda st: st.tuples(st.integers(1, 5), st.just(1), st.integers(1, 20), st.integers(1, 140)),
        "lengths": lambda st: st.lists(st.integers(1, 20), min_size=1, max_size=4).map(tuple),
    },
)
def mamba_chunk_scan_fwd_cpu_sizes(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Any sizes."""
    return mamba_chunk_scan_fwd_cpu(library, draw, options="Dz", repeated=False, **parameters)


@cases("mamba_chunk_scan_fwd_cpu", poison=["nan", "inf", "-inf"])
def mamba_chunk_scan_fwd_cpu_poisoned(library: Any, draw: Draw, *, poison: str) -> Call:
    """What is not a number, or infinite, stays in its component and its sequence."""
    sizes, lengths = (2, 1, 3, 20), (4, 3)
    layer = draw_layer(draw, sum(lengths), sizes, torch.float32, "D", positive=True)
    layer.x[1, 1, 2] = float(poison)
    state, out = draw.guarded(torch.zeros(2, 2, 3, 20)), draw.output(layer.x.shape, torch.float32)
    ends, before = offsets(lengths), torch.zeros(2, 3, 20)

    def run() -> dict[str, torch.Tensor]:
        rest = (layer.step, layer.rate, layer.key, layer.query, layer.skip, None, ends)
        library.mamba_chunk_scan_fwd_cpu(out, state, layer.x, *rest)
        return {"out": out, "state": state}

    def expected() -> Mapping[str, Expected]:
        sequences = [layer.expected(start, end, before, softplus=False) for start, end in ((0, 4), (4, 7))]
        return {
            "out": together([found for steps in sequences for found, _ in steps], 20 + 3),
            "state": together([steps[-1][1] for steps in sequences]),
        }

    return Call(run, expected)


@cases("mamba_chunk_scan_fwd_cpu", problem=["out", "state", "format"])
def mamba_chunk_scan_fwd_cpu_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Outputs that are not contiguous, and float64."""
    dtype = torch.float64 if problem == "format" else torch.float32
    layer = draw_layer(draw, 3, (2, 1, 4, 8), dtype, "", positive=True)
    out, state = torch.zeros_like(layer.x), torch.zeros(1, 2, 4, 8)
    if problem == "out":
        out = draw.strided(out)
    if problem == "state":
        state = draw.strided(state)
    rest = (layer.x, layer.step, layer.rate, layer.key, layer.query, None, None, offsets((3,)))
    return refused(lambda: library.mamba_chunk_scan_fwd_cpu(out, state, *rest))
