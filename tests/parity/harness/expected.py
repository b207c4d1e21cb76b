"""What an oracle says about one output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Near:
    """The exact result, in float64; an output may differ from it by its limit.

    Attributes:
        value: float64, the shape of the output. For an integer output it is the value before it is rounded.
        magnitude: What relative errors are relative to: the sum of the absolute values of the terms that were
            added up for each element. The value itself if None.
        length: How many terms were added up.
    """

    value: torch.Tensor
    magnitude: torch.Tensor | None = None
    length: int = 1

    @property
    def relative_to(self) -> torch.Tensor:
        """The magnitude, or the size of the value where that is the same."""
        return self.value.abs() if self.magnitude is None else self.magnitude


@dataclass(frozen=True)
class Exact:
    """The only right result: integers, copies, permutations."""

    value: torch.Tensor


@dataclass(frozen=True)
class Judged:
    """A result with several right answers, such as the index of one of two equal scores.

    Attributes:
        judge: Is given the output, and returns what is wrong with it, or an empty string.
    """

    judge: Callable[[torch.Tensor], str]


Expected = Near | Exact | Judged
