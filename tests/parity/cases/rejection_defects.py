"""Calls that the acceptance of drafts takes and gets wrong; docs/findings.md has one heading for each."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact

PLACEHOLDER, BONUS, RECOVERED = -1, 7, 3


@cases("rejection_random_sample_kernel_impl")
def rejection_random_sample_padding(library: Any, draw: Draw) -> Call:
    """A draft of -1 stands for none, and is rejected."""
    target = torch.tensor([[0.5, 0.5], [0.1, 0.9]])
    out = draw.guarded(torch.full((1, 3), PLACEHOLDER))
    drafts, uniform, recovered = torch.tensor([0, -1]), torch.tensor([0.1, 0.1]), torch.tensor([RECOVERED, 4])

    def run() -> dict[str, torch.Tensor]:
        library.rejection_random_sample_kernel_impl(
            out, torch.tensor([2]), drafts, None, target, torch.tensor([[BONUS]]), recovered, uniform, None, 2, 2, True
        )
        return {"out": out}

    return Call(run, lambda: {"out": Exact(torch.tensor([[0, 4, PLACEHOLDER]]))})


@cases("rejection_random_sample_kernel_impl")
def rejection_random_sample_impossible(library: Any, draw: Draw) -> Call:
    """A draft that its own model gives no probability is rejected, even if the random number is zero."""
    draft, target = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    out = draw.guarded(torch.full((1, 2), PLACEHOLDER))
    one, recovered, uniform = torch.tensor([1]), torch.tensor([RECOVERED]), torch.tensor([0.0])

    def run() -> dict[str, torch.Tensor]:
        library.rejection_random_sample_kernel_impl(
            out, one, torch.tensor([0]), draft, target, torch.tensor([[BONUS]]), recovered, uniform, None, 1, 2, False
        )
        return {"out": out}

    return Call(run, lambda: {"out": Exact(torch.tensor([[RECOVERED, PLACEHOLDER]]))})
