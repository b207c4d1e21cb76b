"""Many tensors as one output."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.expected import Near


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return all elements of some tensors, one after the other."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def flat_near(parts: Sequence[Near]) -> Near:
    """Return what is expected of all elements of some outputs, sums of equally many terms."""
    magnitude = flat([part.relative_to for part in parts])
    return Near(flat([part.value for part in parts]), magnitude, length=parts[0].length)
