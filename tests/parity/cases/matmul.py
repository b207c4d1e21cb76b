"""What the cases of matrix products share."""

from __future__ import annotations

from typing import Any

import torch

from harness.draw import Draw
from harness.expected import Exact

# A packed product of float16 needs AMX-FP16; upstream asks for that before it uses one.
DTYPES = [torch.bfloat16, *([torch.float16] if torch.cpu._is_amx_fp16_supported() else [])]
TRUE = Exact(torch.tensor(True))


def multiples(st: Any, step: int, most: int = 12) -> Any:
    """Return the hypothesis strategy of the multiples of ``step`` up to ``most`` times it."""
    return st.integers(1, most).map(lambda count: count * step)


def rows_of_sizes(draw: Draw, rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """Return rows that differ in magnitude, so that another row's scale is wrong; the last of several is zero."""
    x = draw.normal((rows, width)) * 2.0 ** draw.integers((rows, 1), -6, 7)
    if rows > 1:
        x[-1] = 0
    return x.to(dtype)


def double(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Return a tensor in float64, if there is one."""
    return None if tensor is None else tensor.double()
