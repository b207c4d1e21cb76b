"""Causal convolution of prompts and of single tokens, with the history of each sequence in a slot of a pool."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

import torch

from cases.pools import offsets, pool
from harness.case import Call, cases, refused
from harness.compare import bits
from harness.draw import Draw
from harness.expected import Exact, Expected, Judged, Near
from oracles import convolution

ARM = platform.machine() == "aarch64"
WIDTH = 4
# Kernels take 32 or 64 channels at a time and refuse others. 8192 is Qwen 3 Next.
CHANNELS = [32, 64, 96, 160, 8192]
NO_PAD = -1


def pair_weights(draw: Draw, channels: int, *, biased: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return weights and bias in bfloat16, all that kernels of this width support."""
    weight = draw.normal((channels, WIDTH), torch.bfloat16)
    return weight, draw.normal([channels], torch.bfloat16) if biased else None


def expected_sequences(
    tokens: list[torch.Tensor],
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    histories: list[torch.Tensor],
    *,
    silu: bool,
) -> Near:
    """Return the convolutions of several sequences, (channels, tokens) each, side by side."""
    wide = None if bias is None else bias.double()
    found = [
        convolution.causal_convolution(x.double(), weight.double(), wide, history.double(), silu=silu)
        for x, history in zip(tokens, histories, strict=True)
    ]
    magnitudes = [each.magnitude for each in found if each.magnitude is not None]
    return Near(torch.cat([each.value for each in found], -1), torch.cat(magnitudes, -1), weight.shape[1] + 1)


def name_of_output(*, silu: bool, coarse: bool = ARM) -> str:
    """Return the output's name: the activation has limits of its own, and on Arm mostly a coarser exponential."""
    if not silu:
        return "out"
    return "activated_coarsely" if coarse else "activated"


@cases("causal_conv1d_weight_pack", dtype=[torch.bfloat16, torch.float16], channels=[32, 64, 96, 256])
def causal_conv1d_weight_pack(library: Any, draw: Draw, *, dtype: torch.dtype, channels: int) -> Call:
    """The order is the kernels' own: blocks of as many channels as their vectors take."""
    weight = draw.permutation(channels * WIDTH).to(torch.int16).view(dtype).reshape(channels, WIDTH)
    orders = [convolution.packed_weight(bits(weight), block) for block in (8, 32)]

    def judge(got: torch.Tensor) -> str:
        if got.dtype == dtype and any(torch.equal(bits(got), order) for order in orders):
            return ""
        return "the weights are in no order that a kernel reads"

    return Call(lambda: {"packed": library.causal_conv1d_weight_pack(weight)}, lambda: {"packed": Judged(judge)})


@cases("causal_conv1d_weight_pack", shape=[(33, 4), (16, 4), (32, 3), (32, 2)])
def causal_conv1d_weight_pack_odd(library: Any, draw: Draw, *, shape: tuple[int, int]) -> Call:
    """Channels that are no multiple of the block, and other widths, are refused."""
    weight = draw.normal(shape, torch.bfloat16)
    return refused(lambda: library.causal_conv1d_weight_pack(weight))


def _prefill(
    library: Any,
    draw: Draw,
    weights: Callable[[torch.Tensor], torch.Tensor],
    *,
    channels: int,
    lengths: tuple[int, ...],
    biased: bool,
    silu: bool,
    layout: str,
    states: int,
    is_packed: bool = False,
    values: str = "ordinary",
) -> Call:
    """Prepare the convolution of prompts that stand one behind the other, some of which go on from a history."""
    count = len(lengths)
    weight, bias = pair_weights(draw, channels, biased=biased)
    x = _tokens(draw, (sum(lengths), channels), values).T
    history, gaps = histories(draw, (count + 2, channels, states), layout)
    slots = draw.permutation(count + 2)[:count].to(torch.int32)
    goes_on = torch.arange(count) % 2 == int(draw.integers([1], 0, 2))

    def run() -> dict[str, torch.Tensor]:
        arguments = (x, weights(weight), bias, history, offsets(lengths), slots, goes_on, silu, NO_PAD, is_packed)
        out = library.causal_conv1d_fwd_cpu(*arguments)
        return {name_of_output(silu=silu): out, "history": history, "gaps": gaps}

    def expected() -> Mapping[str, Expected]:
        parts = list(x.split(lengths, dim=-1))
        before = [
            _start(history[slot, :, : WIDTH - 1], goes_on=on)
            for slot, on in zip(slots.tolist(), goes_on.tolist(), strict=True)
        ]
        after = history.clone()
        for slot, part, old in zip(slots.tolist(), parts, before, strict=True):
            after[slot, :, : WIDTH - 1] = convolution.next_history(part, old)
        near = expected_sequences(parts, weight, bias, before, silu=silu)
        return {name_of_output(silu=silu): near, "history": Exact(after), "gaps": Exact(gaps.clone())}

    return Call(run, expected)


def _tokens(draw: Draw, shape: tuple[int, int], values: str) -> torch.Tensor:
    """Draw tokens: ordinary ones, of all magnitudes whose products and sums are finite, or with one not a number."""
    if values == "extreme":
        return draw.extremes(shape, torch.bfloat16).clamp(-(2.0**40), 2.0**40)
    x = draw.normal(shape, torch.bfloat16)
    if values == "nan":
        x[shape[0] // 2, shape[1] // 3] = torch.nan
    return x


def _start(history: torch.Tensor, *, goes_on: bool) -> torch.Tensor:
    """Return what stands before a sequence: its history, or zeros."""
    return history.clone() if goes_on else torch.zeros_like(history)


def histories(draw: Draw, shape: tuple[int, int, int], layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return histories of (slots, channels, tokens) of which the channels, or the tokens, are neighbours in memory."""
    slots, channels, states = shape
    if layout == "tokens":
        return draw.guarded(draw.normal(shape, torch.bfloat16)), torch.empty(0)
    gap = 0 if layout == "channels" else 48
    found, gaps = pool(draw, draw.normal((slots, states, channels), torch.bfloat16), gap)
    return found.transpose(1, 2), gaps


@cases(
    "causal_conv1d_fwd_cpu",
    channels=CHANNELS,
    # A block is 32 tokens.
    lengths=[(1,), (2, 3, 1), (31,), (32, 4), (33,), (40, 0, 65)],
    biased=[True, False],
    silu=[True, False],
    layout=["channels", "tokens", "gaps"],
    states=[3, 5],
    where=lambda channels, lengths, biased, silu, layout, states: (
        (channels < 8192 or sum(lengths) <= 6)
        and (layout != "tokens" or states == WIDTH - 1)
        and (channels == 96 or layout == "gaps")
        and (channels == 96 or states == WIDTH - 1)
        and (biased == silu or (channels == 96 and lengths == (33,)))
    ),
)
def causal_conv1d_fwd_cpu(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Weights as they are; histories may be longer than needed if their channels are neighbours."""
    return _prefill(library, draw, lambda weight: weight, **parameters)


@cases(
    "causal_conv1d_fwd_cpu",
    channels=[224],
    lengths=[(5, 35)],
    silu=[True, False],
    deep={
        "channels": lambda st: st.integers(1, 12).map(lambda blocks: 32 * blocks),
        "lengths": lambda st: st.lists(st.integers(0, 70), min_size=1, max_size=4).map(tuple),
    },
)
def causal_conv1d_fwd_cpu_sizes(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Any number of tokens."""
    return _prefill(library, draw, lambda weight: weight, biased=True, layout="gaps", states=WIDTH - 1, **parameters)


@cases("causal_conv1d_fwd_cpu", "causal_conv1d_weight_pack", channels=[32, 96], biased=[True, False])
def causal_conv1d_fwd_cpu_packed(library: Any, draw: Draw, *, channels: int, biased: bool) -> Call:
    """Weights packed before, as at the loading of a model."""
    return _prefill(
        library,
        draw,
        library.causal_conv1d_weight_pack,
        channels=channels,
        lengths=(7, 34),
        biased=biased,
        silu=True,
        layout="channels",
        states=WIDTH - 1,
        is_packed=True,
    )


@cases("causal_conv1d_fwd_cpu", values=["extreme", "nan"], silu=[True, False])
def causal_conv1d_fwd_cpu_special(library: Any, draw: Draw, *, values: str, silu: bool) -> Call:
    """Large and small values; and one that is not a number, which only the next few tokens of its channel see."""
    return _prefill(
        library,
        draw,
        lambda weight: weight,
        channels=96,
        lengths=(7, 34),
        biased=True,
        silu=silu,
        layout="channels",
        states=WIDTH - 1,
        values=values,
    )


@cases("causal_conv1d_fwd_cpu", channels=[32, 96], batch=[1, 3], tokens=[1, 2, 33], silu=[True, False])
def causal_conv1d_fwd_cpu_batch(
    library: Any, draw: Draw, *, channels: int, batch: int, tokens: int, silu: bool
) -> Call:
    """Sequences of one length; each has the slot of its number, the only ones that kernels write right."""
    weight, bias = pair_weights(draw, channels, biased=True)
    x = draw.normal((batch, tokens, channels), torch.bfloat16).transpose(1, 2)
    history, _ = histories(draw, (batch, channels, WIDTH - 1), "channels")
    goes_on = torch.arange(batch) % 2 == 0

    def run() -> dict[str, torch.Tensor]:
        arguments = (x, weight, bias, history, None, None, goes_on, silu, NO_PAD, False)
        out = library.causal_conv1d_fwd_cpu(*arguments)
        return {name_of_output(silu=silu): out.transpose(0, 1).flatten(1), "history": history}

    def expected() -> Mapping[str, Expected]:
        before = [_start(each, goes_on=on) for each, on in zip(history, goes_on.tolist(), strict=True)]
        after = [convolution.next_history(part, old) for part, old in zip(x, before, strict=True)]
        near = expected_sequences(list(x), weight, bias, before, silu=silu)
        return {name_of_output(silu=silu): near, "history": Exact(torch.stack(after))}

    return Call(run, expected)


@cases(
    "causal_conv1d_fwd_cpu",
    problem=["float16", "float32", "rows", "weights", "bias", "flags", "few slots", "wide", "channels"],
)
def causal_conv1d_fwd_cpu_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Formats and shapes that kernels check for."""
    dtype = {"float16": torch.float16, "float32": torch.float32}.get(problem, torch.bfloat16)
    channels = 48 if problem == "channels" else 32
    x = draw.normal((5, channels), dtype)
    arguments = (
        draw.normal((channels, 5), dtype) if problem == "rows" else x.T,
        draw.normal((channels, WIDTH), torch.float16 if problem == "weights" else dtype),
        draw.normal([channels], torch.float32) if problem == "bias" else None,
        draw.normal((1 if problem == "few slots" else 2, channels, 5 if problem == "wide" else 3), dtype),
        offsets((2, 3)),
        torch.tensor([0, 1], dtype=torch.int32),
        torch.tensor([1, 1]) if problem == "flags" else torch.tensor([True, True]),
    )
    return refused(lambda: library.causal_conv1d_fwd_cpu(*arguments, True, NO_PAD, False))
