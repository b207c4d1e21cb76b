"""Which kernels of attention a library has; the other cases of a kernel expect it to be refused if it is not there."""

from __future__ import annotations

import platform
from typing import Any

import torch

from cases.paged_batch import FP8, has_kernel
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact

NATIVE = {"amx": {"x86_64"}, "neon": {"aarch64", "arm64"}, "vxe": {"s390x"}}
"""Machines that have kernels of their own."""
READS_FP8 = ("_C", "_C_AVX512")
"""Libraries of x86-64 that know caches in FP8."""


@cases(
    "get_scheduler_metadata",
    isa=["vec", "vec16", *NATIVE],
    dtype=[torch.float32, torch.bfloat16, torch.float16],
    cache=["auto", *FP8],
    # AMX's kernels are only asked for what they have, where a processor has it.
    where=lambda isa, dtype, **_: isa != "amx" or (dtype == torch.bfloat16 and torch.cpu._is_amx_tile_supported()),
)
def attention_kernels(library: Any, draw: Draw, *, isa: str, dtype: torch.dtype, cache: str) -> Call:  # noqa: ARG001
    """What the library is made for is there, and what it cannot have is refused."""
    return Call(
        lambda: {"there": torch.tensor(has_kernel(library, isa, 64, dtype, cache))},
        lambda: {"there": Exact(torch.tensor(_made_for(library.name, isa, cache)))},
    )


def _made_for(name: str, isa: str, cache: str) -> bool:
    machine = platform.machine()
    if isa in NATIVE and (machine not in NATIVE[isa] or not name.startswith("_C")):
        return False
    if isa == "amx":
        return name == "_C"
    return cache == "auto" or (isa == "vec" and machine == "x86_64" and name in READS_FP8)
