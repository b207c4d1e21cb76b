"""Where packing puts elements, found out without knowing the layout."""

from __future__ import annotations

from collections.abc import Callable

import torch


def sources(pack: Callable[[torch.Tensor], torch.Tensor], count: int, base: int) -> torch.Tensor:
    """Return, for each packed element, the number of the element that is there.

    The elements' numbers are packed digit by digit, and read again from the packed digits. A packing that only moves
    elements gives each number once.

    Args:
        pack: Is given ``count`` integers below ``base``, and returns what they become, flat.
        count: How many elements there are.
        base: How many values an element can have.
    """
    numbers = torch.arange(count)
    found = torch.zeros(count, dtype=torch.int64)
    weight = 1
    while weight < count:
        found += weight * pack(numbers // weight % base)
        weight *= base
    return found
