"""DeepSeek V4's compressors: windows of vectors become one, which is normalised, rotated and cached in 8 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness.case import Call, cases, refusal
from harness.draw import Draw
from harness.expected import Exact, Expected, Near
from oracles import compressed_cache, fp8_cache, rotary

POSITIONS = 512
EPSILON = 1e-6
PADDING = 32
"""Elements between blocks, as where layers share an allocation."""
HEAD, INDEX_HEAD = 512, 128
FLOORS = {HEAD: 1e-4, INDEX_HEAD: 1e-4 / fp8_cache.LARGEST}
"""The kernels let no scale be below 10^-4, and no largest value, respectively."""
# Positions between windows, whether they overlap, tokens, slots of a block, slots of a block of states. DeepSeek V4 has
# windows of 128 that do not overlap, and such of 8 that overlap by half.
SIZES = [
    (4, True, 1, 16, 4),
    (4, True, 17, 16, 4),
    (128, False, 1, 64, 8),
    (128, False, 4, 1, 8),
    (2, True, 5, 4, 3),
    (8, False, 9, 256, 8),
]

SPREADS = [3.0, 300.0]
"""Of the scores of a window; exp() of the large ones is infinite unless the largest is taken away first."""
WINDOWS: dict[str, Any] = {
    "size": SIZES,
    "scale": [1.0, 1e-8, 0.0],
    "spread": SPREADS,
    "padded": [False, True],
    "where": lambda scale, spread, padded, **_: spread == SPREADS[0] or (scale == 1.0 and not padded),
    "deep": {
        "size": lambda st: st.tuples(
            st.integers(1, 12), st.booleans(), st.integers(1, 12), st.integers(1, 20), st.integers(1, 9)
        )
    },
}
"""What both operators are tried with."""


@dataclass(frozen=True)
class Inputs:
    """Arguments, all of the cache's memory, and which tokens end a window and have a slot."""

    state: torch.Tensor
    gathered: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    weight: torch.Tensor
    table: torch.Tensor
    whole: torch.Tensor
    cache: torch.Tensor
    compressed: torch.Tensor

    @property
    def written(self) -> torch.Tensor:
        """The slots that are written."""
        return self.slots[self.compressed]

    def store(self, operator: Callable[..., None], block: int, ratio: int) -> None:
        """Call an operator, which fills the cache."""
        operator(
            self.state,
            self.gathered,
            self.positions,
            self.slots,
            self.weight,
            EPSILON,
            self.table,
            self.cache,
            block,
            ratio,
        )

    def expected(self, ratio: int) -> Near:
        """Return what is cached, before it is rounded."""
        return compressed_cache.compress(
            self.state.double().flatten(0, 1),
            self.gathered[self.compressed],
            self.positions[self.compressed],
            ratio,
            self.weight.double(),
            EPSILON,
            self.table.double(),
        )


def _inputs(
    draw: Draw, head: int, size: tuple[int, bool, int, int, int], scale: float, spread: float, *, padded: bool
) -> Inputs:
    ratio, overlap, tokens, block, state_block = size
    width, window = head * (1 + overlap), ratio * (1 + overlap)
    blocks = 64 // state_block
    states = draw.normal((blocks, state_block * 2 * width + PADDING * padded))
    state = states[:, : state_block * 2 * width].unflatten(-1, (state_block, 2 * width))
    state[..., :width] *= scale
    state[..., width:] *= spread
    gathered = draw.integers((tokens, window), 0, blocks * state_block)
    # A window's newest position is always there; the first windows of a sequence lack their oldest.
    gathered[:, :-1] = torch.where(draw.uniform((tokens, window - 1), 0, 1) < 0.2, -1, gathered[:, :-1])
    token = torch.arange(tokens)
    positions = draw.integers([tokens], 1, POSITIONS // ratio) * ratio - 1 + (token % 3 == 1)
    layout = fp8_cache.fp8_ds_mla() if head == HEAD else fp8_cache.INDEXER
    shape = (2 * tokens // block + 1, layout.block(block) + PADDING * padded)
    whole = draw.guarded(draw.integers(shape, 0, 256, torch.uint8))
    slots = torch.where(token % 4 == 2, -1, draw.permutation(2 * tokens)[:tokens])
    table = rotary.cos_sin_table(POSITIONS, fp8_cache.ROTATED).float()
    compressed = ((positions + 1) % ratio == 0) & (slots >= 0)
    cache = whole[:, : layout.block(block)]
    return Inputs(state, gathered, positions, slots, draw.normal([head]), table, whole, cache, compressed)


@cases("compress_norm_rope_store_cpu", **WINDOWS)
def compress_norm_rope_store(
    library: Any, draw: Draw, *, size: tuple[int, bool, int, int, int], scale: float, spread: float, padded: bool
) -> Call:
    """Latent vectors for attention: the rotated components are kept in bfloat16."""
    ratio, _, _, block, _ = size
    given = _inputs(draw, HEAD, size, scale, spread, padded=padded)
    layout, plain = fp8_cache.fp8_ds_mla(), HEAD - fp8_cache.ROTATED
    untouched = layout.write(given.whole.clone(), given.written, block, 0, 0)

    def run() -> dict[str, torch.Tensor]:
        given.store(library.compress_norm_rope_store_cpu, block, ratio)
        found = fp8_cache.read_latents(given.cache, given.written, block)
        rest = layout.write(given.whole.clone(), given.written, block, 0, 0)
        return {"plain": found.plain, "scales": found.scales, "rotated": found.rotated, "rest": rest}

    def expected() -> dict[str, Expected]:
        wanted = given.expected(ratio)
        assert wanted.magnitude is not None
        tiles = wanted.value[:, :plain].unflatten(-1, (-1, fp8_cache.TILE))
        return {
            "plain": fp8_cache.dequantised(tiles, FLOORS[HEAD]),
            "scales": fp8_cache.fits(tiles.abs().amax(-1), FLOORS[HEAD]),
            "rotated": Near(wanted.value[:, plain:], wanted.magnitude[:, plain:], wanted.length),
            "rest": Exact(untouched),
        }

    return Call(run, expected)


@cases("compress_norm_rope_store_indexer_cpu", **WINDOWS)
def compress_norm_rope_store_indexer(
    library: Any, draw: Draw, *, size: tuple[int, bool, int, int, int], scale: float, spread: float, padded: bool
) -> Call:
    """Keys for the indexer: all components in 8 bits, with one scale."""
    ratio, _, _, block, _ = size
    given = _inputs(draw, INDEX_HEAD, size, scale, spread, padded=padded)
    layout = fp8_cache.INDEXER
    untouched = layout.write(given.whole.clone(), given.written, block, 0, 0)

    def run() -> dict[str, torch.Tensor]:
        given.store(library.compress_norm_rope_store_indexer_cpu, block, ratio)
        keys, scales = fp8_cache.read_index_keys(given.cache, given.written, block)
        rest = layout.write(given.whole.clone(), given.written, block, 0, 0)
        return {"keys": keys, "scales": scales, "rest": rest}

    def expected() -> dict[str, Expected]:
        wanted = given.expected(ratio).value
        return {
            "keys": fp8_cache.dequantised(wanted, FLOORS[INDEX_HEAD]),
            "scales": fp8_cache.fits(wanted.abs().amax(-1), FLOORS[INDEX_HEAD]),
            "rest": Exact(untouched),
        }

    return Call(run, expected)


@cases(
    "compress_norm_rope_store_cpu",
    "compress_norm_rope_store_indexer_cpu",
    problem=["state", "state rows", "windows", "positions", "slots", "weight", "weight type", "table", "cache"],
)
def compress_norm_rope_store_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together are refused, by both."""

    def outcome(name: str, head: int) -> torch.Tensor:
        state = draw.normal((2, 4, 2 * head), torch.bfloat16 if problem == "state" else torch.float32)
        if problem == "state rows":
            state = draw.strided(state, 16)
        gathered = torch.zeros((2, 4), dtype=torch.int32 if problem == "windows" else torch.int64)
        positions = torch.zeros(1 if problem == "positions" else 2, dtype=torch.int64)
        slots = torch.zeros(2, dtype=torch.int32 if problem == "slots" else torch.int64)
        weight = draw.normal(
            [head + (problem == "weight")], torch.bfloat16 if problem == "weight type" else torch.float32
        )
        table = rotary.cos_sin_table(1, 64).to(torch.float64 if problem == "table" else torch.float32)
        cache = draw.integers((2, 4096), 0, 256, torch.int8 if problem == "cache" else torch.uint8)
        arguments = (state, gathered, positions, slots, weight, EPSILON, table, cache, 4, 4)
        return refusal(lambda: getattr(library, name)(*arguments))["refused"]

    def run() -> dict[str, torch.Tensor]:
        attention = outcome("compress_norm_rope_store_cpu", HEAD)
        indexer = outcome("compress_norm_rope_store_indexer_cpu", INDEX_HEAD)
        return {"attention": attention, "indexer": indexer}

    return Call(run, lambda: dict.fromkeys(("attention", "indexer"), Exact(torch.tensor(True))))
