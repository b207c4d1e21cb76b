"""What the CPU that a run happens on has."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def has_any(features: Iterable[str]) -> bool:
    """Return whether this CPU has any of some features, by PyTorch's names."""
    return any(torch.cpu.get_capabilities().get(feature) for feature in features)
