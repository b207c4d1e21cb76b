"""What DeepSeek V4 does to queries, keys and values before attention, and to its output after it."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected, Near
from oracles import compressed_cache, fp8_cache, rotary

DTYPES = [torch.bfloat16, torch.float16]
POSITIONS = 512
EPSILON = 1e-6
# The kernels of this layout let no scale be below 10^-4.
FLOOR = 1e-4
PADDING = 32
"""Bytes between blocks, as where layers share an allocation."""


def _cache(draw: Draw, layout: fp8_cache.Layout, slots: int, block: int, *, padded: bool) -> tuple[torch.Tensor, ...]:
    """Return a cache of any bytes, with at least so many slots: all of its memory, and what an operator is given."""
    size = layout.block(block)
    # Part of a slot is bfloat16: each block begins at an even address.
    shape = (slots // block + 1, size + size % 2 + PADDING * padded)
    whole = draw.guarded(draw.integers(shape, 0, 256, torch.uint8))
    return whole, whole[:, :size]


def _some(draw: Draw, slots: torch.Tensor) -> torch.Tensor:
    """Return slots of which some are absent, as those of padding are; not the first."""
    absent = draw.uniform(slots.shape, 0, 1) < 0.2
    absent[:1] = False
    return torch.where(absent, -1, slots)


@cases(
    "fused_qnorm_rope_kv_insert_cpu",
    dtype=DTYPES,
    # Head size, heads, heads with padding, tokens, cached ones of them, slots of a block. 512 is DeepSeek V4's.
    size=[
        (128, 1, 1, 0, 0, 16),
        (128, 1, 1, 1, 1, 1),
        (192, 3, 8, 5, 5, 3),
        (512, 8, 8, 1, 1, 64),
        (512, 7, 16, 17, 17, 16),
        (512, 1, 8, 20, 17, 16),
        (512, 64, 64, 2, 2, 256),
    ],
    scale=[1.0, 1e-3, 0.0, 100.0],
    padded=[False, True],
    where=lambda scale, padded, **_: scale == 1.0 or not padded,
    deep={
        "size": lambda st: st.tuples(
            st.sampled_from([128, 192, 256, 512]),
            st.integers(1, 9),
            st.integers(9, 16),
            st.integers(20, 30),
            st.integers(0, 20),
            st.integers(1, 70),
        )
    },
)
def fused_qnorm_rope_kv_insert(
    library: Any, draw: Draw, *, dtype: torch.dtype, size: tuple[int, ...], scale: float, padded: bool
) -> Call:
    """Queries of any magnitude are normalised; latent vectors of any magnitude are cached; a zero follows scales."""
    head, heads, padded_heads, tokens, cached, block = size
    plain = head - fp8_cache.ROTATED
    q, kv = draw.normal((tokens, heads, head), dtype, scale), draw.normal((tokens, head), dtype, scale)
    positions = draw.integers([tokens], 0, POSITIONS)
    table = rotary.cos_sin_table(POSITIONS, fp8_cache.ROTATED).float()
    layout = fp8_cache.fp8_ds_mla(plain)
    whole, cache = _cache(draw, layout, 2 * cached, block, padded=padded)
    slots = _some(draw, draw.permutation(2 * cached)[:cached])
    written = slots[slots >= 0]
    untouched = layout.write(whole.clone(), written, block, 0, 0)

    def run() -> dict[str, torch.Tensor]:
        out = library.fused_qnorm_rope_kv_insert_cpu(
            q, kv, positions, cache, slots, table, padded_heads, EPSILON, block
        )
        found = fp8_cache.read_latents(cache, written, block, plain)
        rest = layout.write(whole.clone(), written, block, 0, 0)
        spare = layout.read(cache, written, block)[1][:, -1]
        parts = {"plain": found.plain, "scales": found.scales, "rotated": found.rotated, "spare": spare}
        return {"q": out, "rest": rest} | parts

    def expected() -> dict[str, Expected]:
        angles = table[positions].double()
        wanted = compressed_cache.query(q.double(), angles, EPSILON)
        more = (0, 0, 0, padded_heads - heads)
        assert wanted.magnitude is not None
        latents = compressed_cache.rotate_last(Near(kv.double()[:, None]), angles)
        assert latents.magnitude is not None
        value, magnitude = (part[:cached, 0][slots >= 0] for part in (latents.value, latents.magnitude))
        tiles = value[:, :plain].unflatten(-1, (-1, fp8_cache.TILE))
        exact = 0.0 if dtype == torch.bfloat16 else fp8_cache.BFLOAT16
        return {
            "q": Near(
                torch.nn.functional.pad(wanted.value, more),
                torch.nn.functional.pad(wanted.magnitude, more),
                wanted.length,
            ),
            "plain": fp8_cache.dequantised(tiles, FLOOR, flushed=True),
            "scales": fp8_cache.fits(tiles.abs().amax(-1), FLOOR, exact),
            "rotated": Near(value[:, plain:], magnitude[:, plain:]),
            "spare": Exact(torch.zeros(len(written), dtype=torch.uint8)),
            "rest": Exact(untouched),
        }

    return Call(run, expected)


@cases("fused_qnorm_rope_kv_insert_cpu", exponent=[-4, 0, 7])
def fused_qnorm_rope_kv_insert_ties(library: Any, draw: Draw, *, exponent: int) -> Call:
    """Every normal number of E4M3, and what lies half-way between two, rounded to even; each tile has the largest."""
    numbers = torch.arange(0x08, 0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    values = torch.cat([numbers, (numbers[1:] + numbers[:-1]) / 2])
    values = values[torch.arange(2 * 448) % len(values)].reshape(2, 7, fp8_cache.TILE) * draw.normal((2, 7, 64)).sign()
    values[..., 0] = fp8_cache.LARGEST
    kv = torch.cat([values.flatten(1), torch.zeros(2, fp8_cache.ROTATED)], -1).mul(2.0**exponent).bfloat16()
    q, positions, slots = draw.normal((2, 1, 512), torch.bfloat16), torch.tensor([0, 1]), torch.tensor([3, 0])
    _, cache = _cache(draw, fp8_cache.fp8_ds_mla(), 4, 4, padded=False)
    table = rotary.cos_sin_table(2, fp8_cache.ROTATED).float()

    def run() -> dict[str, torch.Tensor]:
        library.fused_qnorm_rope_kv_insert_cpu(q, kv, positions, cache, slots, table, 1, EPSILON, 4)
        return {"plain": fp8_cache.read_latents(cache, slots, 4).plain}

    return Call(run, lambda: {"plain": Exact(values.to(torch.float8_e4m3fn).double() * 2.0**exponent)})


@cases(
    "fused_qnorm_rope_kv_insert_cpu",
    problem=[
        "float32",
        "other type",
        "head",
        "fewer padded heads",
        "few vectors",
        "positions",
        "table",
        "cache",
        "strided",
    ],
)
def fused_qnorm_rope_kv_insert_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together are refused."""
    head = 100 if problem == "head" else 128
    dtype = torch.float32 if problem == "float32" else torch.bfloat16
    q = draw.normal((2, 2, head), dtype)
    if problem == "strided":
        q = draw.strided(q)
    kv = draw.normal((1 if problem == "few vectors" else 2, head), torch.float16 if problem == "other type" else dtype)
    positions = torch.zeros(1 if problem == "positions" else 2, dtype=torch.int64)
    table = rotary.cos_sin_table(1, 64).to(torch.bfloat16 if problem == "table" else torch.float32)
    cache = draw.integers((2, 4096), 0, 256, torch.int8 if problem == "cache" else torch.uint8)
    slots, padded_heads = torch.tensor([0, 1]), 1 if problem == "fewer padded heads" else 2
    return refused(
        lambda: library.fused_qnorm_rope_kv_insert_cpu(q, kv, positions, cache, slots, table, padded_heads, 1e-6, 4)
    )


@cases(
    "save_partial_states_cpu",
    # Components, positions between windows, tokens, slots of a block. The kernel takes 16 elements at a time, and its
    # widths are multiples of that: 512 and 1024 for attention, 128 and 256 for the indexer.
    size=[(16, 1, 0, 1), (16, 1, 1, 1), (48, 3, 15, 4), (128, 128, 16, 8), (256, 4, 17, 4), (1024, 4, 5, 3)],
    padded=[False, True],
    split=[False, True],
    deep={
        "size": lambda st: st.tuples(
            st.integers(1, 40).map(lambda count: 16 * count), st.integers(1, 9), st.integers(0, 40), st.integers(1, 9)
        )
    },
)
def save_partial_states(
    library: Any, draw: Draw, *, size: tuple[int, int, int, int], padded: bool, split: bool
) -> Call:
    """Vectors and scores may be halves of one tensor; scores get what belongs to their place in the window."""
    width, ratio, tokens, block = size
    both = draw.normal((tokens, 2 * width))
    vectors, scores = both.chunk(2, -1) if split else (part.contiguous() for part in both.chunk(2, -1))
    places = draw.normal((ratio, width))
    positions = draw.integers([tokens], 0, 4096)
    blocks = 2 * tokens // block + 1
    whole = draw.guarded(draw.normal((blocks, block * 2 * width + PADDING * padded)))
    state = whole[:, : block * 2 * width].unflatten(-1, (block, 2 * width))
    slots = _some(draw, draw.permutation(blocks * block)[:tokens])
    written = slots[slots >= 0]

    def cleared() -> torch.Tensor:
        rest = whole.clone()
        rest[:, : block * 2 * width].unflatten(-1, (block, 2 * width))[written // block, written % block] = 0
        return rest

    def run() -> dict[str, torch.Tensor]:
        library.save_partial_states_cpu(vectors, scores, places, positions, state, slots)
        found = state[written // block, written % block]
        return {"vectors": found[:, :width], "scores": found[:, width:], "rest": cleared()}

    def expected() -> dict[str, Expected]:
        kept = slots >= 0
        added = scores.double() + places.double()[positions % ratio]
        return {"vectors": Exact(vectors[kept]), "scores": Near(added[kept]), "rest": Exact(cleared())}

    return Call(run, expected)


@cases("save_partial_states_cpu", problem=["type", "scores", "places", "positions", "slots", "state", "state rows"])
def save_partial_states_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together are refused."""
    vectors = draw.normal((2, 16), torch.bfloat16 if problem == "type" else torch.float32)
    scores = draw.normal((3 if problem == "scores" else 2, 16))
    places = draw.normal((4, 32 if problem == "places" else 16))
    positions = torch.zeros(1 if problem == "positions" else 2, dtype=torch.int64)
    slots = torch.tensor([0, 1], dtype=torch.int32 if problem == "slots" else torch.int64)
    state = draw.normal((2, 4, 48 if problem == "state" else 32))
    if problem == "state rows":
        state = draw.strided(state, 16)
    return refused(lambda: library.save_partial_states_cpu(vectors, scores, places, positions, state, slots))


@cases(
    "inverse_gptj_rope_o_proj_cpu",
    dtype=DTYPES,
    # Head size and rotated components: the kernel takes 16 and 32 of them at a time. 64 of 512 is DeepSeek V4's.
    sizes=[(32, 32), (48, 32), (64, 64), (192, 128), (512, 64)],
    heads=[1, 3, 64],
    tokens=[0, 1, 17],
    where=lambda heads, tokens, **_: heads * tokens < 200,
    deep={"heads": lambda st: st.integers(1, 20), "tokens": lambda st: st.integers(0, 9)},
)
def inverse_gptj_rope_o_proj(
    library: Any, draw: Draw, *, dtype: torch.dtype, sizes: tuple[int, int], heads: int, tokens: int
) -> Call:
    """Attention's output is turned back, in float32."""
    head, turned = sizes
    out = draw.normal((tokens, heads, head), dtype)
    positions = draw.integers([tokens], 0, POSITIONS)
    table = rotary.cos_sin_table(POSITIONS, turned).float()

    def run() -> dict[str, torch.Tensor]:
        found = library.inverse_gptj_rope_o_proj_cpu(out, positions, table, turned)
        return {"kept": found[..., :-turned], "turned": found[..., -turned:]}

    def expected() -> dict[str, Expected]:
        wanted = compressed_cache.rotate_last(Near(out.double()), table[positions].double(), inverse=True)
        assert wanted.magnitude is not None
        rotated = Near(wanted.value[..., -turned:], wanted.magnitude[..., -turned:])
        return {"kept": Exact(out[..., :-turned].float()), "turned": rotated}

    return Call(run, expected)


@cases(
    "inverse_gptj_rope_o_proj_cpu", problem=["float32", "head", "rotated", "larger", "table", "positions", "strided"]
)
def inverse_gptj_rope_o_proj_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Sizes that are no multiple of the vector, and types that do not go together, are refused."""
    turned = {"rotated": 48, "larger": 128}.get(problem, 64)
    out = draw.normal(
        (2, 2, 72 if problem == "head" else 96), torch.float32 if problem == "float32" else torch.bfloat16
    )
    if problem == "strided":
        out = draw.strided(out)
    positions = torch.zeros(2, dtype=torch.int32 if problem == "positions" else torch.int64)
    table = rotary.cos_sin_table(1, turned).to(torch.bfloat16 if problem == "table" else torch.float32)
    return refused(lambda: library.inverse_gptj_rope_o_proj_cpu(out, positions, table, turned))
