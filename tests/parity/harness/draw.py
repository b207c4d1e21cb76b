"""Inputs drawn from one seed, and outputs with guards around them."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from harness.compare import bits

GUARD = 64
"""Elements before and after an output; a vector of 512 bits holds at most as many."""


_DRAWS: weakref.WeakValueDictionary[int, Draw] = weakref.WeakValueDictionary()
"""All whose tensors may be given to an operator."""


def guards() -> list[torch.Tensor]:
    """Return the memory beside tensors that no operator may touch."""
    return [part for draw in _DRAWS.values() for _, part, _ in draw._guards]


@dataclass
class Draw:
    """Makes the tensors of one call.

    Attributes:
        seed: Everything drawn depends on it alone.
    """

    seed: int
    _generator: torch.Generator = field(init=False, repr=False)
    _guards: list[tuple[str, torch.Tensor, torch.Tensor]] = field(init=False, default_factory=list, repr=False)
    _outputs: int = field(init=False, default=0, repr=False)

    def __post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.seed)
        _DRAWS[id(self)] = self

    def normal(self, shape: Sequence[int], dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
        """Return normally distributed values, rounded to ``dtype``."""
        return (torch.randn(tuple(shape), generator=self._generator) * scale).to(dtype)

    def uniform(
        self, shape: Sequence[int], low: float, high: float, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """Return values between ``low`` and ``high``, rounded to ``dtype``."""
        return (torch.rand(tuple(shape), generator=self._generator) * (high - low) + low).to(dtype)

    def integers(self, shape: Sequence[int], low: int, high: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Return integers of ``low <= i < high``."""
        return torch.randint(low, high, tuple(shape), generator=self._generator).to(dtype)

    def permutation(self, count: int) -> torch.Tensor:
        """Return the integers below ``count`` in any order; int64."""
        return torch.randperm(count, generator=self._generator)

    def extremes(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return values of all magnitudes that ``dtype`` has: both zeros, subnormals, the largest and smallest."""
        info = torch.finfo(dtype)
        edges = [0.0, -0.0, info.smallest_normal, -info.smallest_normal, info.smallest_normal / 2, info.max, info.min]
        count = max(int(torch.Size(shape).numel()), 1)
        exponents = self.uniform([count], -30, 30, torch.float64)
        values = self.normal([count], torch.float64).sign() * 2.0**exponents
        places = torch.arange(0, count, 5)
        values[places] = torch.tensor(edges, dtype=torch.float64)[places // 5 % len(edges)]
        return values.clamp(info.min, info.max)[: torch.Size(shape).numel()].reshape(tuple(shape)).to(dtype)

    def output(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return a contiguous tensor to be written, with guards before and after it.

        Its own elements are not a number, or a large integer, so that one that is not written is wrong.
        """
        count = torch.Size(shape).numel()
        whole = torch.empty(count + 2 * GUARD, dtype=dtype)
        whole.view(torch.uint8).fill_(0xFF if dtype.is_floating_point else 0x55)
        self._guard(f"before the memory of its output {self._outputs}", whole[:GUARD])
        self._guard(f"after the memory of its output {self._outputs}", whole[GUARD + count :])
        self._outputs += 1
        return whole[GUARD : GUARD + count].view(tuple(shape))

    def guarded(self, values: torch.Tensor) -> torch.Tensor:
        """Return a contiguous copy of a tensor that is read and written, with guards before and after it."""
        return self.output(values.shape, values.dtype).copy_(values)

    def strided(self, values: torch.Tensor, padding: int = 8) -> torch.Tensor:
        """Return a copy whose rows lie apart, as in a view of a wider tensor; the gaps are not a number."""
        *rows, width = values.shape
        wide = self.output([*rows, width + padding], values.dtype)
        self._guard(f"between the rows of its output {self._outputs - 1}", wide[..., width:])
        wide[..., :width] = values
        return wide[..., :width]

    def at_edge(self, values: torch.Tensor) -> torch.Tensor:
        """Return a contiguous copy that ends where a page begins that may not be read: who does gets a signal."""
        size = values.numel() * values.itemsize
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        block = mmap.mmap(-1, pages + mmap.PAGESIZE)
        edge = ctypes.addressof(ctypes.c_char.from_buffer(block, pages))
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(mmap.PAGESIZE), 0):
            raise OSError("a page cannot be protected")
        flat = torch.frombuffer(block, dtype=values.dtype, count=values.numel(), offset=pages - size)
        return flat.view(values.shape).copy_(values)

    def damage(self) -> str:
        """Say whether memory beside an output was written; empty if not."""
        for place, part, before in self._guards:
            if bool((bits(part) != before).any()):
                return f"the operator wrote {place}"
        return ""

    def _guard(self, place: str, part: torch.Tensor) -> None:
        self._guards.append((place, part, bits(part).clone()))
