"""Attention over latent vectors in a sliding window and over compressed ones, both in paged caches of 8 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Near
from oracles import fp8_cache, sparse_mla

HEAD = 512
SCALE = HEAD**-0.5
PLAIN = HEAD - fp8_cache.ROTATED
LAYOUT = fp8_cache.fp8_ds_mla()
# Tokens, heads, slots in the window, compressed slots. The kernel takes 8 heads at a time, or 16 from 16 tokens on, and
# 128 slots, packed by 16 and 32. DeepSeek V4 has windows of 128, 512 compressed vectors, and 64 or 128 heads.
SIZES = [
    (1, 1, 1, 0),
    (2, 7, 15, 1),
    (1, 8, 16, 5),
    (3, 9, 17, 0),
    (5, 4, 31, 33),
    (16, 16, 33, 5),
    (17, 17, 12, 2),
    (2, 3, 127, 128),
    (2, 8, 129, 16),
    (1, 64, 128, 512),
    (1, 128, 300, 0),
]


@dataclass(frozen=True)
class Vectors:
    """A cache, how many slots its blocks have, and those that each token reads."""

    cache: torch.Tensor
    block: int
    slots: torch.Tensor

    @property
    def valid(self) -> torch.Tensor:
        """Which slots are in the cache."""
        return (self.slots >= 0) & (self.slots < len(self.cache) * self.block)

    @property
    def latents(self) -> torch.Tensor:
        """What the slots hold, zero for those that are not in the cache; float64."""
        valid = self.valid
        found = fp8_cache.read_latents(self.cache, self.slots[valid], self.block)
        latents = torch.zeros((*self.slots.shape, HEAD), dtype=torch.float64)
        latents[valid] = torch.cat([found.plain.flatten(1), found.rotated.double()], -1)
        return latents


def _elements(draw: Draw, count: int, *, subnormal: bool) -> torch.Tensor:
    """Return bytes of E4M3: about normally distributed, or all of the subnormal numbers."""
    if subnormal:
        return draw.integers((count, PLAIN), 0, 8, torch.uint8) + 128 * draw.integers((count, PLAIN), 0, 2, torch.uint8)
    values = draw.normal((count, PLAIN), scale=64)
    smallest = fp8_cache.SMALLEST_NORMAL
    values = torch.where(values.abs() < smallest, values.sign() * smallest, values).clamp(-448, 448)
    return values.to(torch.float8_e4m3fn).view(torch.uint8)


def _vectors(draw: Draw, tokens: int, count: int, block: int, *, padded: bool, subnormal: bool = False) -> Vectors:
    """Return a cache with vectors of order one in half of its slots; all other bytes decode as not a number."""
    filled = count + 3
    blocks = 2 * filled // block + 1
    used = draw.permutation(blocks * block)[:filled]
    whole = torch.full((blocks, LAYOUT.block(block) + 64 * padded), 0xFF, dtype=torch.uint8)
    exponents = draw.integers((filled, LAYOUT.scales), 119, 123, torch.uint8)
    if subnormal:
        exponents.fill_(127)
    rotated = draw.normal((filled, fp8_cache.ROTATED), torch.bfloat16).view(torch.uint8)
    data = torch.cat([_elements(draw, filled, subnormal=subnormal), rotated], -1)
    cache = LAYOUT.write(whole, used, block, data, exponents)[:, : LAYOUT.block(block)]
    slots = used[draw.integers((tokens, count), 0, filled)]
    # A slot is absent if it is negative, or behind the cache.
    chance = draw.uniform(slots.shape, 0, 1)
    slots = torch.where(chance < 0.15, -1, torch.where(chance > 0.95, blocks * block, slots))
    return Vectors(cache, block, slots)


def _attention(library: Any, draw: Draw, q: torch.Tensor, parts: list[Vectors], **more: Any) -> Call:
    """Prepare a call; ``more`` may have the sinks, and what of the vectors counts."""
    _, heads, _ = q.shape
    window, compressed = parts
    sink = more.get("sink", draw.normal([heads]))
    out = draw.output(q.shape, torch.bfloat16)

    def run() -> dict[str, torch.Tensor]:
        library.flash_mla_with_kvcache_cpu(
            out,
            q,
            window.cache,
            window.slots,
            window.block,
            compressed.cache,
            compressed.slots,
            compressed.block,
            sink,
            SCALE,
        )
        return {"out": out}

    def expected() -> dict[str, Near]:
        seen = more.get("seen", parts)
        latents, valid = torch.cat([part.latents for part in seen], 1), torch.cat([part.valid for part in seen], 1)
        return {"out": sparse_mla.attend(q.double(), latents, valid, sink.double(), SCALE)}

    return Call(run, expected)


@cases(
    "flash_mla_with_kvcache_cpu",
    size=SIZES,
    # Slots of a block of either cache.
    blocks=[(64, 16), (1, 3)],
    # With queries of 1 the weights are about even, with 8 one vector may have nearly all of it.
    scale=[1.0, 8.0],
    padded=[False, True],
    where=lambda blocks, padded, **_: padded == (blocks == (1, 3)),
    deep={
        "size": lambda st: st.tuples(
            st.integers(1, 20), st.integers(1, 40), st.integers(1, 300), st.integers(0, 300)
        ).filter(lambda size: size[0] * (size[1] + 512) * (size[2] + size[3]) < 500_000)
    },
)
def flash_mla_with_kvcache(
    library: Any, draw: Draw, *, size: tuple[int, int, int, int], blocks: tuple[int, int], scale: float, padded: bool
) -> Call:
    """Queries may be parts of wider rows, and blocks lie apart."""
    tokens, heads, window, compressed = size
    shape = (tokens, heads, HEAD)
    q = draw.normal(shape, torch.bfloat16, scale)
    parts = [
        _vectors(draw, tokens, count, block, padded=padded)
        for count, block in zip((window, compressed), blocks, strict=True)
    ]
    return _attention(library, draw, draw.strided(q, 32) if padded else q, parts)


@cases("flash_mla_with_kvcache_cpu", sink=["none", "all", "large", "small"])
def flash_mla_with_kvcache_sink(library: Any, draw: Draw, *, sink: str) -> Call:
    """Sinks with none and with all of the weight, and such at which e to the power of them is not finite."""
    sinks = torch.full([4], {"none": -torch.inf, "all": 1e4, "large": 100.0, "small": -100.0}[sink])
    parts = [_vectors(draw, 2, count, 16, padded=False) for count in (20, 5)]
    return _attention(library, draw, draw.normal((2, 4, HEAD), torch.bfloat16), parts, sink=sinks)


@cases("flash_mla_with_kvcache_cpu", heads=[1, 17])
def flash_mla_with_kvcache_nothing(library: Any, draw: Draw, *, heads: int) -> Call:
    """Tokens with nothing to read, between others, get zeros."""
    window, compressed = (_vectors(draw, 3, count, 16, padded=False) for count in (40, 40))
    for part in (window, compressed):
        part.slots[1] = -1
    q = draw.normal((3, heads, HEAD), torch.bfloat16)
    return _attention(library, draw, q, [window, compressed])


@cases("flash_mla_with_kvcache_cpu", heads=[1, 17])
def flash_mla_with_kvcache_infinite(library: Any, draw: Draw, *, heads: int) -> Call:
    """A vector whose logits are all -infinity has no weight: a token that reads nothing else gets zeros, too."""
    window, compressed = (_vectors(draw, 3, count, 16, padded=False) for count in (40, 40))
    for part in (window, compressed):
        part.slots[1] = -1
    unseen = [Vectors(part.cache, part.block, part.slots.clone()) for part in (window, compressed)]
    q = draw.normal((3, heads, HEAD), torch.bfloat16)
    q[..., -1] = 1.0
    used, free = set(window.slots.flatten().tolist()), range(len(window.cache) * window.block)
    slot = torch.tensor([next(slot for slot in free if slot not in used)])
    data = torch.zeros(LAYOUT.data, dtype=torch.uint8)
    data[PLAIN:].view(torch.bfloat16)[-1] = -torch.inf
    LAYOUT.write(window.cache, slot, window.block, data, 127)
    window.slots[1, 7] = slot
    return _attention(library, draw, q, [window, compressed], seen=unseen)


@cases("flash_mla_with_kvcache_cpu", size=[(2, 3, 20, 5)])
def flash_mla_with_kvcache_subnormal(library: Any, draw: Draw, *, size: tuple[int, int, int, int]) -> Call:
    """Zeros and subnormal numbers of E4M3, with scales of one."""
    tokens, heads, window, compressed = size
    parts = [_vectors(draw, tokens, count, 16, padded=False, subnormal=True) for count in (window, compressed)]
    q = draw.normal((tokens, heads, HEAD), torch.bfloat16)
    return _attention(library, draw, q, parts)


@cases(
    "flash_mla_with_kvcache_cpu",
    problem=["size", "out", "out type", "type", "tokens", "no window", "slots", "sinks", "sink type", "strided slots"],
)
def flash_mla_with_kvcache_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together are refused."""
    q = draw.normal((2, 4, 256 if problem == "size" else HEAD), torch.float16 if problem == "type" else torch.bfloat16)
    out = draw.output(
        (2, 3 if problem == "out" else 4, HEAD), torch.float32 if problem == "out type" else torch.bfloat16
    )
    count = 0 if problem == "no window" else 6
    slots = torch.zeros((3 if problem == "tokens" else 2, count), dtype=torch.int64)
    if problem == "slots":
        slots = slots.int()
    if problem == "strided slots":
        slots = slots[:, ::2]
    sink = draw.normal([3 if problem == "sinks" else 4], torch.float64 if problem == "sink type" else torch.float32)
    cache = torch.zeros((1, LAYOUT.block(4)), dtype=torch.uint8)
    absent = torch.zeros((2, 0), dtype=torch.int64)
    return refused(lambda: library.flash_mla_with_kvcache_cpu(out, q, cache, slots, 4, cache, absent, 1, sink, SCALE))
