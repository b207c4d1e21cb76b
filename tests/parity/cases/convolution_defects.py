"""Calls that the short convolutions take and get wrong; docs/findings.md has one heading for each."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact
from harness.ranks import run_ranks, shared

CHANNELS, WIDTH = 32, 4
NO_PAD = -1


def _pool(draw: Draw, slots: int) -> torch.Tensor:
    """Return histories of ones, (slots, channels, WIDTH - 1), in which the channels are next to each other."""
    return draw.guarded(torch.ones(slots, WIDTH - 1, CHANNELS, dtype=torch.bfloat16)).transpose(1, 2)


@cases("causal_conv1d_fwd_cpu")
def causal_conv1d_fwd_slots(library: Any, draw: Draw) -> Call:
    """Sequences of one length, as a batch of three dimensions: the history of each goes to the slot that is given."""
    x = draw.normal((2, 5, CHANNELS), torch.bfloat16).transpose(1, 2)
    weight, pool = draw.normal((CHANNELS, WIDTH), torch.bfloat16), _pool(draw, 3)
    slots, fresh = torch.tensor([2, 0], dtype=torch.int32), torch.tensor([False, False])

    def run() -> dict[str, torch.Tensor]:
        library.causal_conv1d_fwd_cpu(x, weight, None, pool, None, slots, fresh, False, NO_PAD, False)
        return {"history": pool}

    def expected() -> dict[str, Exact]:
        after = pool.clone()
        after[slots.long()] = x[..., 1 - WIDTH :]
        return {"history": Exact(after)}

    return Call(run, expected)


@cases("causal_conv1d_fwd_cpu", "causal_conv1d_update_cpu")
def causal_conv1d_padding(library: Any, draw: Draw) -> Call:
    """A sequence whose slot is the one that stands for padding leaves it as it is, also in a batch of one length."""
    names = ("fwd", "update", "batch")
    weight, pools = draw.normal((CHANNELS, WIDTH), torch.bfloat16), [_pool(draw, 3) for _ in names]
    x, one = draw.normal((6, CHANNELS), torch.bfloat16).T, draw.normal((2, CHANNELS), torch.bfloat16)
    batch = draw.normal((2, 3, CHANNELS), torch.bfloat16).transpose(1, 2)
    ends, slots = (torch.tensor(each, dtype=torch.int32) for each in ([0, 3, 6], [0, 2]))
    goes_on, pad = torch.tensor([True, True]), 2

    def run() -> dict[str, torch.Tensor]:
        library.causal_conv1d_fwd_cpu(x, weight, None, pools[0], ends, slots, goes_on, False, pad, False)
        library.causal_conv1d_update_cpu(one, pools[1], weight, None, False, None, slots, pad, False)
        library.causal_conv1d_fwd_cpu(batch, weight, None, pools[2], None, slots, goes_on, False, pad, False)
        return dict(zip(names, [each[2] for each in pools], strict=True))

    ones = torch.ones(CHANNELS, WIDTH - 1, dtype=torch.bfloat16)
    return Call(run, lambda: dict.fromkeys(names, Exact(ones)))


@cases("causal_conv1d_fwd_cpu", pooled=[False, True])
def causal_conv1d_fwd_no_history(library: Any, draw: Draw, *, pooled: bool) -> Call:
    """Without histories, or without saying who has one: both are optional.

    It is called in a process of its own, as it may be the end of it.
    """
    x, weight = torch.ones(CHANNELS, 6, dtype=torch.bfloat16), torch.ones(CHANNELS, WIDTH, dtype=torch.bfloat16)
    ends, out = torch.tensor([0, 6], dtype=torch.int32), shared(draw.output((CHANNELS, 6), torch.bfloat16))
    pool = _pool(draw, 1) if pooled else None

    def body() -> None:
        out.copy_(
            library.causal_conv1d_fwd_cpu(
                x.T.contiguous().T, weight, None, pool, ends, None, None, False, NO_PAD, False
            )
        )

    def run() -> dict[str, torch.Tensor]:
        run_ranks(library, [body])
        return {"out": out}

    sums = torch.tensor([1.0, 2, 3, 4, 4, 4], dtype=torch.bfloat16).expand(CHANNELS, 6).clone()
    return Call(run, lambda: {"out": Exact(sums)})


@cases("causal_conv1d_update_cpu_vec")
def causal_conv1d_update_cpu_vec_others(library: Any, draw: Draw) -> Call:
    """Histories in float32 with tokens in bfloat16: slots of no token stay as they are."""
    history, slots = draw.guarded(torch.full((3, 4, WIDTH - 1), 1.001)), torch.tensor([0], dtype=torch.int32)
    x, weight = torch.ones(1, 4, dtype=torch.bfloat16), torch.ones(4, WIDTH, dtype=torch.bfloat16)

    def run() -> dict[str, torch.Tensor]:
        library.causal_conv1d_update_cpu_vec(x, history, weight, None, None, slots, None, NO_PAD)
        return {"others": history[1:]}

    return Call(run, lambda: {"others": Exact(torch.full((2, 4, WIDTH - 1), 1.001))})


@cases("causal_conv1d_update_cpu_vec", spare=[1, 3])
def causal_conv1d_update_cpu_vec_spare(library: Any, draw: Draw, *, spare: int) -> Call:
    """Columns for drafts, behind those that the convolution is wide, are neither read nor written."""
    ahead = torch.full((2, 4, spare), torch.nan)
    before, after = (torch.cat([torch.tensor(each).expand(2, 4, 3), ahead], -1) for each in ([1.0, 2, 3], [2.0, 3, 4]))
    history, weight = draw.guarded(before), draw.guarded(torch.tensor([1.0, 10, 100, 1000]).repeat(4, 1))

    def run() -> dict[str, torch.Tensor]:
        out = library.causal_conv1d_update_cpu_vec(
            torch.full((2, 4), 4.0), history, weight, None, None, None, None, NO_PAD
        )
        return {"out": out, "history": history}

    return Call(run, lambda: {"out": Exact(torch.full((2, 4), 4321.0)), "history": Exact(after)})


@cases("causal_conv1d_update_cpu_vec", wrong=["starts", "history"])
def causal_conv1d_update_cpu_vec_refused(library: Any, draw: Draw, *, wrong: str) -> Call:
    """Where sequences start, which the kernel does not use, and histories that are too short."""
    history = draw.guarded(torch.ones(2, 4, WIDTH - 1 - (wrong == "history")))
    starts = torch.tensor([0, 1, 2], dtype=torch.int32) if wrong == "starts" else None
    x, weight = torch.ones(2, 4), draw.guarded(torch.ones(4, WIDTH))
    return refused(lambda: library.causal_conv1d_update_cpu_vec(x, history, weight, None, None, None, starts, NO_PAD))
