"""Gated delta rule of whole prompts, which kernels compute in chunks of 64 tokens: the recurrence must come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cases.delta_rule import put, together, unchanged
from cases.pools import offsets, only_float32, pool
from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected, Near
from oracles import delta_rule

# Key heads and value heads. 16 heads are summed at a time.
HEADS = [(1, 1), (1, 2), (2, 4), (1, 17), (16, 32)]


def _expected(
    parts: tuple[torch.Tensor, ...], state: torch.Tensor, lengths: tuple[int, ...], epsilon: float | None
) -> list[list[tuple[Near, Near]]]:
    """Return what comes out of each token of each sequence, and the states; query and key are normalised by epsilon."""
    query, key, *rest = (part.double().split(lengths) for part in parts)
    if epsilon is not None:
        query, key = ([delta_rule.normalised(each, epsilon) for each in part] for part in (query, key))
    return [
        list(delta_rule.gated_delta_rule(*inputs, before.double()))
        for *inputs, before in zip(query, key, *rest, state, strict=True)
    ]


def _draw_parts(
    draw: Draw, tokens: int, heads: tuple[int, int], size: int, decay: float, *, normalise: bool
) -> tuple[torch.Tensor, ...]:
    """Draw query, key and value as parts of the rows of one product, the logarithm of the decay, and the strength."""
    widths = (heads[0] * size, heads[0] * size, heads[1] * size)
    rows = [draw.normal((tokens, width), torch.bfloat16) for width in widths]
    if not normalise:
        rows[1] = rows[1] / size**0.5
    split = torch.cat(rows, -1).split(widths, -1)
    counts = (heads[0], heads[0], heads[1])
    query, key, value = (part.unflatten(1, (count, size)) for part, count in zip(split, counts, strict=True))
    log_decay = -draw.uniform((tokens, heads[1]), 0.0, decay)
    return query, key, value, log_decay, draw.uniform((tokens, heads[1]), 0.0, 1.0, torch.bfloat16)


@cases(
    "chunk_gated_delta_rule_cpu",
    # The data type of the states.
    dtype=[torch.float32, torch.bfloat16, torch.float16],
    heads=HEADS,
    size=[64, 128],
    lengths=[(1,), (2, 0, 3), (31, 33), (63,), (64,), (65, 16), (150,)],
    # None passes vectors that are normalised already. 1.0 is seen in the result.
    epsilon=[1e-6, 1.0, None],
    # From nothing that is forgotten to almost all with each token.
    decay=[0.0, 0.1, 1.0, 20.0],
    gap=[0, 40],
    returned=[True, False],
    where=lambda dtype, heads, size, lengths, epsilon, decay, gap, returned: (
        (heads == (2, 4) or (sum(lengths) < 6 and size == 64))
        and (size == 64 or sum(lengths) in {5, 63})
        and (dtype == torch.float32 or (lengths in {(65, 16), (2, 0, 3)} and heads == (2, 4)))
        and (epsilon == 1e-6 or (lengths in {(31, 33), (1,)} and heads == (2, 4)))
        and (decay == 0.1 or lengths == (64,) or (lengths == (150,) and decay == 1.0))
        and (lengths != (150,) or decay == 1.0)
        and (gap == 0) == (len(lengths) == 1)
        and (returned or (sum(lengths) < 6 and heads == (2, 4)))
    ),
)
def chunk_gated_delta_rule_cpu(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    heads: tuple[int, int],
    size: int,
    lengths: tuple[int, ...],
    epsilon: float | None,
    decay: float,
    gap: int,
    returned: bool,
) -> Call:
    """Prompts that stand one behind the other; their states are in slots of a pool, and are changed there.

    The pool is what is returned, too; nobody looks at it if the states are not asked for.
    """
    count = len(lengths)
    parts = _draw_parts(draw, sum(lengths), heads, size, decay, normalise=epsilon is not None)
    pooled, gaps = pool(draw, draw.normal((count + 2, heads[1], size, size), dtype), gap)
    slots = draw.permutation(count + 2)[:count].to(torch.int32)
    rest = (returned, offsets(lengths), False, epsilon is not None, slots, *([epsilon] if epsilon is not None else []))

    def update(before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, states = library.chunk_gated_delta_rule_cpu(*(part[None] for part in parts), before, *rest)
        return out, states

    def run() -> dict[str, torch.Tensor]:
        out, states = update(pooled)
        asked = {"state": pooled, "returned": states} if returned else {}
        return {"out": out[0], "gaps": gaps, **asked}

    def expected() -> Mapping[str, Expected]:
        after, wanted = unchanged(pooled), []
        for slot, steps in zip(slots.tolist(), _expected(parts, pooled[slots], lengths, epsilon), strict=True):
            wanted += [found for found, _ in steps]
            if steps:
                put(after, slot, steps[-1][1])
        asked = {"state": after, "returned": after} if returned else {}
        return {"out": together(wanted), "gaps": Exact(gaps.clone()), **asked}

    return refused(run) if only_float32(update, pooled) else Call(run, expected)


@cases(
    "chunk_gated_delta_rule_cpu",
    dtype=[torch.float32],
    lengths=[(20, 7)],
    deep={"lengths": lambda st: st.lists(st.integers(1, 140), min_size=1, max_size=3).map(tuple)},
)
def chunk_gated_delta_rule_cpu_sizes(library: Any, draw: Draw, **parameters: Any) -> Call:
    """Any lengths."""
    rest: dict[str, Any] = {"heads": (1, 2), "size": 64, "epsilon": 1e-6, "decay": 0.1, "gap": 40, "returned": True}
    return chunk_gated_delta_rule_cpu(library, draw, **rest, **parameters)


@cases(
    "chunk_gated_delta_rule_cpu",
    problem=["heads first", "batch", "heads", "size", "sizes", "float16", "gates", "ends", "slots", "packed", "state"],
)
def chunk_gated_delta_rule_cpu_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """What kernels check for."""
    size, batch = 96 if problem == "size" else 64, 2 if problem == "batch" else 1
    value_size = 128 if problem == "sizes" else size
    dtype = torch.float16 if problem == "float16" else torch.bfloat16
    pooled = draw.normal((2, 3 if problem == "heads" else 2, size, value_size))
    if problem == "packed":
        pooled = pooled.transpose(2, 3)
    if problem == "state":
        pooled = pooled.double()
    arguments = (
        draw.normal((batch, 3, 2, size), dtype),
        draw.normal((batch, 3, 2, size), dtype),
        draw.normal((batch, 3, pooled.shape[1], value_size), dtype),
        draw.normal((batch, 3, pooled.shape[1]), torch.bfloat16 if problem == "gates" else torch.float32),
        draw.normal((batch, 3, pooled.shape[1]), dtype),
        pooled,
        True,
        torch.tensor([0, 3], dtype=torch.int64 if problem == "ends" else torch.int32),
        problem == "heads first",
        True,
        torch.tensor([0], dtype=torch.int64 if problem == "slots" else torch.int32),
    )
    return refused(lambda: library.chunk_gated_delta_rule_cpu(*arguments))
