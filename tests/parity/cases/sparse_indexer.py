"""DeepSeek V4's indexer: queries in 8 bits, and the scores of all keys."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected, Near
from oracles import compressed_cache, fp8_cache, rotary, sparse_indexer

HEAD = 128
POSITIONS = 512
INDEX_DTYPES = [torch.int32, torch.int64]
LAYOUT = fp8_cache.INDEXER


@cases(
    "fused_indexer_q_rope_quant_cpu",
    # Head size, rotated components: the kernel takes 16 and 32 of them at a time. 64 of 128 is DeepSeek V4's.
    sizes=[(128, 64), (32, 32), (48, 32), (160, 128)],
    heads=[1, 3, 64],
    tokens=[0, 1, 17],
    scale=[1.0, 1e-6, 0.0, 300.0],
    padded=[False, True],
    deep={"heads": lambda st: st.integers(1, 9), "tokens": lambda st: st.integers(0, 10)},
    # 64 heads of 17 tokens only where models have them; gaps only with ordinary values.
    where=lambda sizes, heads, tokens, scale, padded: (
        (heads * tokens < 100 or sizes == (128, 64)) and (scale == 1.0 or not (padded or heads * tokens >= 100))
    ),
)
def fused_indexer_q_rope_quant(
    library: Any, draw: Draw, *, sizes: tuple[int, int], heads: int, tokens: int, scale: float, padded: bool
) -> Call:
    """The scale of a query goes into its weight: judged are their product, and that the scale is the right one."""
    head, turned = sizes
    place = draw.strided if padded else draw.guarded
    q, weights = place(draw.normal((tokens, heads, head), scale=scale)), place(draw.normal((tokens, heads)))
    table = place(rotary.cos_sin_table(POSITIONS, turned).float())
    positions = draw.integers([tokens], 0, POSITIONS)
    out, weights_out = place(torch.zeros(q.shape).to(torch.float8_e4m3fn)), place(torch.zeros(weights.shape))
    softmax_scale, head_scale = head**-0.5, 0.3
    factor = weights.double() * softmax_scale * head_scale
    floor = 1e-4 / fp8_cache.LARGEST

    def run() -> dict[str, torch.Tensor]:
        library.fused_indexer_q_rope_quant_cpu(
            positions, q, table, out, weights, softmax_scale, head_scale, weights_out
        )
        scales = weights_out.double() / factor
        nearest = torch.exp2(scales.log2().round())
        # The weight's own roundings in float32 are below this; what is no power of two stays as it is.
        scales = torch.where((scales / nearest - 1).abs() < 1e-6, nearest, scales)
        return {"weighted": out.double() * weights_out.double()[..., None], "scales": scales}

    def expected() -> dict[str, Expected]:
        value = compressed_cache.rotate_last(Near(q.double()), table[positions].double()).value
        found = fp8_cache.dequantised(value, floor)
        assert found.magnitude is not None
        return {
            "weighted": Near(value * factor[..., None], found.magnitude * factor[..., None].abs()),
            "scales": fp8_cache.fits(value.abs().amax(-1), floor),
        }

    return Call(run, expected)


@cases("fused_indexer_q_rope_quant_cpu", exponent=[-9, 0, 20])
def fused_indexer_q_rope_quant_ties(library: Any, draw: Draw, *, exponent: int) -> Call:
    """Every number of E4M3, and what lies half-way between two, rounded to even; nothing is turned."""
    numbers = torch.arange(0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    values = torch.cat([numbers, (numbers[1:] + numbers[:-1]) / 2])
    values = values[torch.arange(4 * 96) % len(values)].reshape(1, 4, 96) * draw.normal((1, 4, 96)).sign()
    values[..., 0] = fp8_cache.LARGEST
    q = torch.cat([values, torch.zeros(1, 4, 32)], -1).mul(2.0**exponent).float()
    table = rotary.cos_sin_table(1, 32).float()
    out, weights = draw.output(q.shape, torch.float8_e4m3fn), draw.output((1, 4), torch.float32)

    def run() -> dict[str, torch.Tensor]:
        library.fused_indexer_q_rope_quant_cpu(torch.tensor([0]), q, table, out, torch.ones(1, 4), 1.0, 1.0, weights)
        return {"out": out[..., :96].double(), "scales": weights}

    def expected() -> dict[str, Expected]:
        wanted = values.to(torch.float8_e4m3fn).double()
        return {"out": Exact(wanted), "scales": Exact(torch.full((1, 4), 2.0**exponent))}

    return Call(run, expected)


@cases("fused_indexer_q_rope_quant_cpu", angle=[0, 1])
def fused_indexer_q_rope_quant_rounds(library: Any, draw: Draw, *, angle: int) -> Call:
    """What is turned is rounded to bfloat16 first: what is a little above half-way then goes to the even number."""
    numbers = torch.arange(0x20, 0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    middles = (numbers[1:] + numbers[:-1]) / 2
    turned = middles[torch.arange(4 * 32) % len(middles)].reshape(1, 4, 32) * (1 + 2.0**-12)
    plain = torch.zeros(1, 4, 96)
    plain[..., 0] = fp8_cache.LARGEST
    q = torch.cat([plain, turned], -1).float()
    # No turn, and a quarter of one, which exchanges the two of a pair.
    table = torch.cat([torch.full((1, 16), 1.0 - angle), torch.full((1, 16), float(angle))], -1)
    pairs = turned.unflatten(-1, (16, 2))
    if angle:
        pairs = torch.stack([-pairs[..., 1], pairs[..., 0]], -1)
    wanted = torch.cat([plain.double(), pairs.flatten(-2)], -1).bfloat16().to(torch.float8_e4m3fn).double()
    out, weights = draw.output(q.shape, torch.float8_e4m3fn), draw.output((1, 4), torch.float32)

    def run() -> dict[str, torch.Tensor]:
        library.fused_indexer_q_rope_quant_cpu(torch.tensor([0]), q, table, out, torch.ones(1, 4), 1.0, 1.0, weights)
        return {"out": out.double(), "scales": weights}

    return Call(run, lambda: {"out": Exact(wanted), "scales": Exact(torch.ones(1, 4))})


@cases(
    "fused_indexer_q_rope_quant_cpu",
    problem=["type", "table", "out", "out type", "weights", "weights out", "positions", "head", "rotated", "strided"],
)
def fused_indexer_q_rope_quant_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Sizes that are no multiple of the vector, and types that do not go together, are refused."""
    head = 136 if problem == "head" else 128
    q = draw.normal((2, 4, head), torch.bfloat16 if problem == "type" else torch.float32)
    if problem == "strided":
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    table = rotary.cos_sin_table(1, 48 if problem == "rotated" else 64)
    table = table.to(torch.bfloat16 if problem == "table" else torch.float32)
    out = draw.output(
        (2, 5 if problem == "out" else 4, head), torch.int8 if problem == "out type" else torch.float8_e4m3fn
    )
    weights = draw.normal((2, 4), torch.float64 if problem == "weights" else torch.float32)
    weights_out = draw.output((2, 3 if problem == "weights out" else 4), torch.float32)
    positions = torch.zeros(2, dtype=torch.int32 if problem == "positions" else torch.int64)
    return refused(
        lambda: library.fused_indexer_q_rope_quant_cpu(positions, q, table, out, weights, 1.0, 1.0, weights_out)
    )


@cases(
    "fp8_paged_mqa_logits_cpu",
    # Heads, tokens of a page, lengths of sequences, and how many columns there are more than the longest needs.
    # DeepSeek V4 has 64 heads and pages of 64 or 256.
    size=[
        (1, 1, (1,), 0),
        (4, 3, (1, 10, 0, 7), 5),
        (3, 16, (15, 16, 17), 0),
        (64, 64, (1, 71, 192), 0),
        (64, 256, (300,), 100),
        (2, 8, (0,), 0),
    ],
    lengths_dtype=INDEX_DTYPES,
    pages_dtype=INDEX_DTYPES,
    padded=[False, True],
    deep={
        "size": lambda st: st.tuples(
            st.integers(1, 9),
            st.integers(1, 70),
            st.lists(st.integers(0, 200), min_size=1, max_size=4).map(tuple),
            st.integers(0, 9),
        )
    },
)
def fp8_paged_mqa_logits(
    library: Any,
    draw: Draw,
    *,
    size: tuple[int, int, tuple[int, ...], int],
    lengths_dtype: torch.dtype,
    pages_dtype: torch.dtype,
    padded: bool,
) -> Call:
    """Keys and queries of all numbers of E4M3. Columns behind a sequence's length are not written."""
    heads, page, lengths, more = size
    columns = max(lengths) + more
    pages = max(-(-length // page) for length in lengths)
    order = draw.permutation(len(lengths) * pages + 1)
    table = order[: len(lengths) * pages].reshape(len(lengths), pages)
    width = LAYOUT.block(page)
    # Pages that nothing refers to hold 0xFF, which is not a number.
    whole = torch.full((len(order), width + 64 * padded), 0xFF, dtype=torch.uint8)
    slots = (table[..., None] * page + torch.arange(page)).reshape(len(lengths), -1)
    count = slots.numel()
    keys = draw.integers((count, HEAD), 0, 0x7F, torch.uint8) + 128 * draw.integers((count, HEAD), 0, 2, torch.uint8)
    scales = draw.uniform((count, 1), 0.01, 0.06).view(torch.uint8)
    cache = LAYOUT.write(whole, slots.flatten(), page, keys, scales)[:, :width]
    q = draw.normal((len(lengths), heads, HEAD), scale=20).to(torch.float8_e4m3fn)
    weight = draw.normal((len(lengths), heads))
    inside = torch.arange(columns) < torch.tensor(lengths)[:, None]
    used = torch.arange(pages) < -(-torch.tensor(lengths) // page)[:, None]
    page_table = torch.where(used, table, -1).to(pages_dtype)

    def run() -> dict[str, torch.Tensor]:
        out = library.fp8_paged_mqa_logits_cpu(
            q, cache, weight, torch.tensor(lengths, dtype=lengths_dtype), page_table, page, columns
        )
        return {"out": out.where(inside, 0)}

    def expected() -> dict[str, Near]:
        value, magnitude = torch.zeros(2, len(lengths), columns, dtype=torch.float64)
        for row, length in enumerate(lengths):
            vectors, _ = fp8_cache.read_index_keys(cache, slots[row, :length], page)
            found = sparse_indexer.scores(q[row].double(), vectors, weight[row].double())
            assert found.magnitude is not None
            value[row, :length], magnitude[row, :length] = found.value, found.magnitude
        return {"out": Near(value, magnitude)}

    return Call(run, expected)


@cases(
    "fp8_paged_mqa_logits_cpu",
    problem=[
        "type",
        "head",
        "cache",
        "page",
        "no page",
        "weight",
        "lengths",
        "lengths type",
        "pages",
        "columns",
        "strided",
    ],
)
def fp8_paged_mqa_logits_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together are refused."""
    head, rows = 64 if problem == "head" else HEAD, 3 if problem == "pages" else 2
    q = draw.normal((2, 4, head)).to(torch.float8_e5m2 if problem == "type" else torch.float8_e4m3fn)
    if problem == "strided":
        q = torch.cat([q, q], -1)[..., :head]
    cache = draw.integers((2, LAYOUT.block(4)), 0, 256, torch.int8 if problem == "cache" else torch.uint8)
    weight = draw.normal((2, 5 if problem == "weight" else 4))
    lengths = torch.ones(
        1 if problem == "lengths" else 2, dtype=torch.int16 if problem == "lengths type" else torch.int32
    )
    pages = torch.zeros((rows, 1), dtype=torch.int32)
    page, columns = {"page": 5, "no page": 0}.get(problem, 4), -1 if problem == "columns" else 1
    return refused(lambda: library.fp8_paged_mqa_logits_cpu(q, cache, weight, lengths, pages, page, columns))
