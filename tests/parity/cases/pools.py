"""States of many sequences in one tensor, as caches hold them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from harness.draw import Draw


def pool(draw: Draw, values: torch.Tensor, gap: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a copy whose slots, the first dimension, lie apart, and the gaps, in which nobody may write."""
    slots, size = values.shape[0], values[0].numel()
    whole = draw.output((slots, size + gap), values.dtype)
    states = whole[:, :size].unflatten(1, values.shape[1:])
    states.copy_(values)
    return states, whole[:, size:]


def offsets(lengths: tuple[int, ...]) -> torch.Tensor:
    """Return where each sequence begins, and the end of the last one; int32."""
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def only_float32(update: Callable[[torch.Tensor], object], states: torch.Tensor) -> bool:
    """Return whether the operator refuses states because they are not in float32, as before vLLM 0.29.

    What it says of states in float64, which no version takes, tells which version it is.
    """
    if states.dtype == torch.float32:
        return False
    try:
        update(states.double())
    except RuntimeError as error:
        return "dtype mismatch" in str(error)
    return False
