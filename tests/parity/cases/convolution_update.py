"""Causal convolution of one or a few new tokens of each sequence, which enter its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cases.convolution import CHANNELS, NO_PAD, WIDTH, expected_sequences, histories, name_of_output, pair_weights
from cases.pools import pool
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected, Near
from oracles import convolution

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@cases(
    "causal_conv1d_update_cpu",
    channels=CHANNELS,
    batch=[1, 2, 5],
    biased=[True, False],
    silu=[True, False],
    layout=["channels", "tokens", "gaps"],
    states=[3, 6],
    indexed=[True, False],
    where=lambda channels, batch, biased, silu, layout, states, indexed: (
        (layout != "tokens" or states == WIDTH - 1)
        and (channels < 8192 or batch == 1)
        and (channels == 96 or (layout == "gaps" and indexed and states == WIDTH - 1))
        and (biased == silu or (channels == 96 and batch == 2))
    ),
)
def causal_conv1d_update_cpu(
    library: Any,
    draw: Draw,
    *,
    channels: int,
    batch: int,
    biased: bool,
    silu: bool,
    layout: str,
    states: int,
    indexed: bool,
) -> Call:
    """One token for each sequence."""
    weight, bias = pair_weights(draw, channels, biased=biased)
    x = draw.normal((batch, channels), torch.bfloat16)
    history, gaps = histories(draw, (batch + 2, channels, states), layout)
    slots = draw.permutation(batch + 2)[:batch].to(torch.int32) if indexed else None

    def run() -> dict[str, torch.Tensor]:
        out = library.causal_conv1d_update_cpu(x, history, weight, bias, silu, None, slots, NO_PAD, False)
        return {name_of_output(silu=silu): out.T, "history": history, "gaps": gaps}

    def expected() -> Mapping[str, Expected]:
        used = range(batch) if slots is None else slots.tolist()
        before = [history[slot, :, : WIDTH - 1].clone() for slot in used]
        after = history.clone()
        for slot, part, old in zip(used, x, before, strict=True):
            after[slot, :, : WIDTH - 1] = convolution.next_history(part[:, None], old)
        near = expected_sequences([part[:, None] for part in x], weight, bias, before, silu=silu)
        return {name_of_output(silu=silu): near, "history": Exact(after), "gaps": Exact(gaps.clone())}

    return Call(run, expected)


@cases("causal_conv1d_update_cpu", "causal_conv1d_weight_pack", channels=[32, 96], batch=[1, 3])
def causal_conv1d_update_cpu_packed(library: Any, draw: Draw, *, channels: int, batch: int) -> Call:
    """Weights packed before."""
    weight, bias = pair_weights(draw, channels, biased=True)
    x = draw.normal((batch, channels), torch.bfloat16)
    history, _ = histories(draw, (batch, channels, WIDTH - 1), "channels")
    packed = library.causal_conv1d_weight_pack(weight)

    def run() -> dict[str, torch.Tensor]:
        out = library.causal_conv1d_update_cpu(x, history, packed, bias, True, None, None, NO_PAD, True)
        return {"activated": out.T, "history": history}

    def expected() -> Mapping[str, Expected]:
        after = [convolution.next_history(part[:, None], old) for part, old in zip(x, history, strict=True)]
        near = expected_sequences([part[:, None] for part in x], weight, bias, list(history.clone()), silu=True)
        return {"activated": near, "history": Exact(torch.stack(after))}

    return Call(run, expected)


@cases(
    "causal_conv1d_update_cpu",
    channels=[32, 96, 320],
    tokens=[1, 2, 4, 33],
    spare=[0, 3],
    biased=[True, False],
    silu=[True, False],
    gap=[0, 48],
    where=lambda channels, spare, biased, silu, gap, **_: (
        (biased == silu or channels == 96) and (spare == 0) == (gap == 0)
    ),
)
def causal_conv1d_update_cpu_drafts(
    library: Any, draw: Draw, *, channels: int, tokens: int, spare: int, biased: bool, silu: bool, gap: int
) -> Call:
    """Drafts for each sequence; its history ends where the drafts accepted of the last ones do, the rest is dropped.

    A history of n tokens has the ones of the step before at its end. The new ones push out as many at its start as
    there were accepted, and are themselves kept whole.
    """
    batch, states = 3, WIDTH - 2 + tokens + spare
    weight, bias = pair_weights(draw, channels, biased=biased)
    x = draw.normal((batch, tokens, channels), torch.bfloat16)
    values = draw.normal((batch + 2, states, channels), torch.bfloat16)
    found, gaps = pool(draw, values, gap)
    history = found.transpose(1, 2)
    slots = draw.permutation(batch + 2)[:batch].to(torch.int32)
    accepted = draw.integers([batch], 1, tokens + 1, torch.int32)

    def run() -> dict[str, torch.Tensor]:
        out = library.causal_conv1d_update_cpu(x, history, weight, bias, silu, accepted, slots, NO_PAD, False)
        return {name_of_output(silu=silu): out.flatten(0, 1).T, "history": history, "gaps": gaps}

    def expected() -> Mapping[str, Expected]:
        pairs = list(zip(slots.tolist(), accepted.tolist(), strict=True))
        before = [history[slot, :, start - 1 : start + WIDTH - 2].clone() for slot, start in pairs]
        after = history.clone()
        for (slot, start), part in zip(pairs, x, strict=True):
            after[slot] = torch.cat([history[slot, :, start : start + states - tokens], part.T], dim=-1)
        near = expected_sequences([part.T for part in x], weight, bias, before, silu=silu)
        return {name_of_output(silu=silu): near, "history": Exact(after), "gaps": Exact(gaps.clone())}

    return Call(run, expected)


@cases("causal_conv1d_update_cpu", problem=["float16", "width", "channels", "bias", "wide", "accepted", "short"])
def causal_conv1d_update_cpu_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """What kernels check for, with one token for each sequence."""
    dtype = torch.float16 if problem == "float16" else torch.bfloat16
    channels, width = 33 if problem == "channels" else 32, 3 if problem == "width" else WIDTH
    states = {"wide": 5, "short": 2}.get(problem, WIDTH - 1)
    arguments = (
        draw.normal((2, channels), dtype),
        draw.normal((2, channels, states), dtype),
        draw.normal((channels, width), dtype),
        draw.normal([channels]) if problem == "bias" else None,
        True,
        torch.tensor([1, 1], dtype=torch.int32) if problem == "accepted" else None,
        None,
    )
    return refused(lambda: library.causal_conv1d_update_cpu(*arguments, NO_PAD, False))


@cases(
    "causal_conv1d_update_cpu",
    problem=["no accepted", "none accepted", "too many", "no slots", "pad", "slot", "history", "layout", "empty"],
)
def causal_conv1d_update_cpu_drafts_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """What kernels check for, with several tokens for each sequence."""
    channels, tokens, states = 32, 0 if problem == "empty" else 3, 3 if problem == "history" else 6
    history = draw.normal((3, states, channels), torch.bfloat16).transpose(1, 2)
    accepted = {"none accepted": 0, "too many": 4, "history": 2}.get(problem, 1)
    slot = {"pad": NO_PAD, "slot": 3}.get(problem, 2)
    arguments = (
        draw.normal((2, tokens, channels), torch.bfloat16),
        history.contiguous() if problem == "layout" else history,
        draw.normal((channels, WIDTH), torch.bfloat16),
        None,
        True,
        None if problem == "no accepted" else torch.tensor([1, accepted], dtype=torch.int32),
        None if problem == "no slots" else torch.tensor([0, slot], dtype=torch.int32),
    )
    return refused(lambda: library.causal_conv1d_update_cpu(*arguments, NO_PAD, False))


@cases(
    "causal_conv1d_update_cpu_vec",
    dtype=DTYPES,
    # 3 is LFM2's width, 4 Mamba's.
    width=[1, 2, 3, 4, 5],
    channels=[1, 7, 16, 33, 768],
    tokens=[None, 1, 4],
    biased=[True, False],
    activation=[None, "silu", "swish"],
    layout=["channels", "tokens", "gaps"],
    where=lambda width, channels, tokens, biased, activation, layout, **_: (
        (width == 4 or (channels == 7 and biased and layout == "gaps"))
        and (tokens != 1 or channels == 16)
        and (activation != "swish" or (channels == 16 and biased))
        and (channels != 768 or (tokens is None and biased))
        and (biased or layout == "tokens")
        and (channels == 16 or layout == "gaps")
    ),
)
def causal_conv1d_update_cpu_vec(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    width: int,
    channels: int,
    tokens: int | None,
    biased: bool,
    activation: str | None,
    layout: str,
) -> Call:
    """Any width and format; one of three sequences is padding, whose tokens come out as they are."""
    batch, pad, silu = 3, -7, activation is not None
    name = name_of_output(silu=silu, coarse=False)
    x = draw.normal((batch, channels) if tokens is None else (batch, channels, tokens), dtype)
    weight = draw.normal((channels, width), dtype)
    bias = draw.normal([channels], dtype) if biased else None
    history, gaps = _any_histories(draw, (batch + 2, channels, width - 1), dtype, layout)
    slots = draw.permutation(batch + 2)[:batch].to(torch.int32)
    slots[1] = pad

    def run() -> dict[str, torch.Tensor]:
        out = library.causal_conv1d_update_cpu_vec(x, history, weight, bias, activation, slots, None, pad)
        return {name: out, "history": history, "gaps": gaps}

    def expected() -> Mapping[str, Expected]:
        parts = x.reshape(batch, channels, -1)
        value, magnitude, after = parts.double(), torch.zeros(parts.shape, dtype=torch.float64), history.clone()
        for number, slot in enumerate(slots.tolist()):
            if slot != pad:
                near = expected_sequences([parts[number]], weight, bias, [history[slot]], silu=silu)
                assert near.magnitude is not None
                value[number], magnitude[number] = near.value, near.magnitude
                after[slot] = convolution.next_history(parts[number], history[slot])
        near = Near(value.reshape(x.shape), magnitude.reshape(x.shape), width + 1)
        return {name: near, "history": Exact(after), "gaps": Exact(gaps.clone())}

    return Call(run, expected)


@cases(
    "causal_conv1d_update_cpu_vec",
    dtype=DTYPES,
    width=[6],
    channels=[20],
    tokens=[2],
    deep={
        "width": lambda st: st.integers(1, 8),
        "channels": lambda st: st.integers(1, 300),
        "tokens": lambda st: st.integers(1, 9),
    },
)
def causal_conv1d_update_cpu_vec_sizes(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Any number of channels and tokens."""
    return causal_conv1d_update_cpu_vec(library, draw, biased=True, activation="silu", layout="gaps", **parameters)


def _any_histories(
    draw: Draw, shape: tuple[int, int, int], dtype: torch.dtype, layout: str
) -> tuple[torch.Tensor, torch.Tensor]:
    slots, channels, states = shape
    if layout == "tokens":
        return pool(draw, draw.normal(shape, dtype), 5)
    found, gaps = pool(draw, draw.normal((slots, states, channels), dtype), 0 if layout == "channels" else 5)
    return found.transpose(1, 2), gaps


@cases("causal_conv1d_update_cpu_vec", dtype=[torch.bfloat16, torch.float16], strided=[True, False])
def causal_conv1d_update_cpu_vec_mixed(library: Any, draw: Draw, *, dtype: torch.dtype, strided: bool) -> Call:
    """Histories, weights and bias in float32, with values that the tokens' format has, too; and no slots given."""
    batch, channels = 2, 9
    history = draw.guarded(draw.normal((batch, channels, WIDTH - 1), dtype).float())
    weight, bias = draw.normal((channels, WIDTH), dtype).float(), draw.normal([channels])
    rows = draw.normal((batch, channels), dtype)
    x = draw.strided(rows) if strided else rows

    def run() -> dict[str, torch.Tensor]:
        out = library.causal_conv1d_update_cpu_vec(x, history, weight, bias, "silu", None, None, NO_PAD)
        return {"activated": out.T, "history": history}

    def expected() -> Mapping[str, Expected]:
        parts = [part[:, None] for part in x]
        after = [convolution.next_history(part.float(), old) for part, old in zip(parts, history, strict=True)]
        near = expected_sequences(parts, weight, bias, list(history.clone()), silu=True)
        return {"activated": near, "history": Exact(torch.stack(after))}

    return Call(run, expected)


@cases("causal_conv1d_update_cpu_vec", dtype=[torch.float64])
def causal_conv1d_update_cpu_vec_unsupported(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
    """There is no kernel for float64."""
    x, history, weight = (draw.normal(shape, dtype) for shape in ((2, 8), (2, 8, 3), (8, 4)))
    return refused(lambda: library.causal_conv1d_update_cpu_vec(x, history, weight, None, None, None, None, -1))
