"""Mixtures of experts: which experts a token goes to, and what they make of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch

from harness.expected import Near
from oracles import activations

HALVES = "halves"
INTERLEAVED = "interleaved"


@dataclass(frozen=True)
class Gate:
    """A gated activation (Shazeer 2020, arXiv:2002.05202).

    Attributes:
        function: Of the gate and the linear unit, element by element; float64.
        layout: Whether gates are the first half of the units, or every other one.
    """

    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    layout: str = HALVES

    def split(self, units: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return gates and linear units."""
        if self.layout == INTERLEAVED:
            return units[..., 0::2], units[..., 1::2]
        first, second = units.chunk(2, dim=-1)
        return first, second


def swiglu(alpha: float, limit: float) -> Gate:
    """g sigmoid(alpha g) (u + 1) with g <= limit and |u| <= limit, interleaved: that of gpt-oss (arXiv:2508.10925)."""

    def function(gate: torch.Tensor, linear: torch.Tensor) -> torch.Tensor:
        gate = gate.clamp(max=limit)
        return gate * torch.sigmoid(alpha * gate) * (linear.clamp(-limit, limit) + 1)

    return Gate(function, INTERLEAVED)


GATES = {
    "silu": Gate(lambda gate, linear: activations.silu(gate).value * linear),
    "gelu": Gate(lambda gate, linear: activations.gelu(gate).value * linear),
    "gelu_tanh": Gate(lambda gate, linear: activations.gelu_tanh(gate).value * linear),
    "swigluoai": swiglu(1.702, 7.0),
}


@dataclass(frozen=True)
class Experts:
    """The weights of all experts; float64.

    Attributes:
        up: (experts, 2 * inner, hidden): gates and linear units.
        down: (experts, hidden, inner).
        up_bias: (experts, 2 * inner), or None.
        down_bias: (experts, hidden), or None.
    """

    up: torch.Tensor
    down: torch.Tensor
    up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None


@dataclass(frozen=True)
class Noisy:
    """Values, and the squares of what their errors are relative to.

    Roundings of random sign add up like the squares of their sizes (Higham & Mary 2019); what follows them magnifies
    them by its derivative.
    """

    value: torch.Tensor
    square: torch.Tensor


def mixture(
    x: torch.Tensor,
    experts: Experts,
    chosen: torch.Tensor,
    shares: torch.Tensor,
    gate: Gate,
    rounded: Collection[str],
    hidden_step: Callable[[torch.Tensor], torch.Tensor] | None = None,
    input_step: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Near:
    """Sum of share * (down act(up x + bias) + bias) over a token's experts (Shazeer 2017, arXiv:1701.06538, eq. 1).

    Args:
        x: float64, (tokens, hidden).
        experts: Their weights.
        chosen: (tokens, k): experts of each token.
        shares: float64, (tokens, k): how much each counts.
        gate: The activation.
        rounded: What is rounded on the way and so belongs to the magnitude: ``terms`` (the weights, or each sum of
            products as it grows), ``units`` (what the activation gets), ``hidden`` (what it gives), ``product`` (an
            expert's result), ``share`` (that times its share).
        hidden_step: How far from right a quantised hidden value may be, over the unit roundoff, given a row of them.
        input_step: The same of inputs, if they are not quantised already.
    """
    total, square = torch.zeros_like(x), torch.zeros_like(x)
    noise = torch.zeros_like(x) if input_step is None else input_step(x).square()
    for expert in range(len(experts.up)):
        tokens, places = (chosen == expert).nonzero(as_tuple=True)
        inputs = Noisy(x[tokens], noise[tokens])
        units = _linear(inputs, experts.up[expert], experts.up_bias, expert, rounded)
        hidden = _gated(_stored(units, "units" in rounded), gate)
        hidden = _stored(hidden, "hidden" in rounded)
        if hidden_step is not None:
            hidden = Noisy(hidden.value, hidden.square + hidden_step(hidden.value).square())
        result = _stored(
            _linear(hidden, experts.down[expert], experts.down_bias, expert, rounded), "product" in rounded
        )
        share = shares[tokens, places, None]
        part = _stored(Noisy(share * result.value, share.square() * result.square), "share" in rounded)
        total.index_add_(0, tokens, part.value)
        square.index_add_(0, tokens, part.square)
    return Near(total, square.sqrt(), length=max(experts.up.shape[-1], experts.down.shape[-1]))


def _linear(x: Noisy, weight: torch.Tensor, bias: torch.Tensor | None, expert: int, rounded: Collection[str]) -> Noisy:
    square = x.square @ weight.T.square()
    if "terms" in rounded:
        square = square + x.value.square() @ weight.T.square()
    value = x.value @ weight.T
    return Noisy(value if bias is None else value + bias[expert], square)


def _gated(units: Noisy, gate: Gate) -> Noisy:
    with torch.enable_grad():
        leaves = units.value.detach().requires_grad_()
        value = gate.function(*gate.split(leaves))
        (slope,) = torch.autograd.grad(value.sum(), leaves)
    first, second = gate.split(slope.square() * units.square)
    return Noisy(value.detach(), first + second)


def _stored(numbers: Noisy, is_rounded: bool) -> Noisy:
    return Noisy(numbers.value, numbers.square + numbers.value.square()) if is_rounded else numbers
