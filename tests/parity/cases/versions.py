"""Calls whose arguments differ between versions of vLLM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def call(library: Any, operator: str, arguments: Mapping[str, Any]) -> None:
    """Call an operator that writes ``arguments["out"]`` with those of the arguments that its schema has.

    Where it has no ``out``, it returns its output, which is copied there. What is left out must mean what the operator
    does without it; families say by ``takes`` what they cannot do without.
    """
    given = {name: value for name, value in arguments.items() if library.takes(operator, name)}
    result = getattr(library, operator)(**given)
    if isinstance(result, torch.Tensor):
        arguments["out"].copy_(result)
