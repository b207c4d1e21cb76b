"""The memory beside tensors, closed to operators where AddressSanitizer's run time is loaded.

The sanitizer knows what was allocated. What lies before, after and between the rows of an output is allocated, too: a
write there is found without it, but a read only if it is told that nothing may be read there.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

_RUNTIME = ctypes.CDLL(None)
CLOSES = hasattr(_RUNTIME, "__asan_poison_memory_region")
"""Whether the run time is there."""


def regions(part: torch.Tensor) -> Iterator[tuple[int, int]]:
    """Yield address and size of the pieces of memory that a part of a tensor is made of."""
    if not part.numel():
        return
    if part.is_contiguous():
        yield part.data_ptr(), part.numel() * part.itemsize
        return
    *rows, width = part.shape
    for place in itertools.product(*map(range, rows)):
        offset = sum(index * stride for index, stride in zip(place, part.stride(), strict=False))
        yield part.data_ptr() + offset * part.itemsize, width * part.itemsize


@contextmanager
def closed(parts: Sequence[torch.Tensor]) -> Iterator[None]:
    """Let the sanitizer report whatever instrumented code reads or writes there meanwhile; nothing without it."""
    pieces = [piece for part in parts for piece in regions(part)] if CLOSES else []
    for address, size in pieces:
        _RUNTIME.__asan_poison_memory_region(ctypes.c_void_p(address), ctypes.c_size_t(size))
    try:
        yield
    finally:
        for address, size in pieces:
            _RUNTIME.__asan_unpoison_memory_region(ctypes.c_void_p(address), ctypes.c_size_t(size))
