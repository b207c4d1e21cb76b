"""Symmetric quantisation: q = nearest(x / s), x is about q s (Jacob et al. 2017, arXiv:1712.05877, section 2.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from oracles import formats_fp8


@dataclass(frozen=True)
class Grid:
    """The values that a format has.

    Attributes:
        largest: The largest of them.
        nearest: Rounds float64 to them.
    """

    largest: float
    nearest: Callable[[torch.Tensor], torch.Tensor]

    def scales(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scale of each row, which maps its largest magnitude to the largest value; 1 for rows of zeros.

        Args:
            x: float64, (..., m, k).

        Returns:
            float64, (..., m).
        """
        top = x.abs().amax(-1)
        return torch.where(top == 0, 1.0, top / self.largest)

    def rounded(self, x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Return what the quantised x stands for.

        Args:
            x: Of any type, (..., m, k).
            scales: float64, (..., m), or one for all.
        """
        return self.nearest(x.double() / scales[..., None]) * scales[..., None]

    def unambiguous(self, x: torch.Tensor, scales: torch.Tensor, slack: float) -> torch.Tensor:
        """Return x with zeros for elements that a relative error up to ``slack`` would quantise to another value.

        Args:
            x: Of any type, (..., m, k).
            scales: float64, (..., m), or one for all.
            slack: Well below half the distance of values.
        """
        exact = x.double() / scales[..., None]
        sure = self.nearest(exact * (1 - slack)) == self.nearest(exact * (1 + slack))
        return torch.where(sure, x, torch.zeros_like(x))


INT8 = Grid(127.0, lambda value: torch.round(value).clamp(-127, 127) + 0.0)  # integers have no -0
E4M3 = Grid(formats_fp8.LARGEST, formats_fp8.nearest)
