"""Sums of what several ranks have."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.expected import Near


def total(parts: Sequence[torch.Tensor]) -> Near:
    """Return the sum of all ranks' tensors (MPI 4.1, 6.9.6, all-reduce with MPI_SUM); float64."""
    return Near(sum(parts), sum(part.abs() for part in parts), length=len(parts) - 1)
