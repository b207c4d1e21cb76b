"""States of many sequences in one tensor, as caches hold them."""

from __future__ import annotations

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
