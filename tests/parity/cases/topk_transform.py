"""DeepSeek V4's indexer: where the 512 largest scores are."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Judged
from oracles import sparse_indexer

CHOSEN = 512


@cases(
    "topk_transform_512_cpu",
    # Lengths of sequences: below 512 all are chosen; longer than the scores count as those.
    lengths=[(0, 1, 511), (512, 513), (1025, 700, 2000), (1200,)],
    page=[1, 16, 64],
    order=["any", "rising", "falling"],
    index_dtypes=[(torch.int32, torch.int64), (torch.int64, torch.int32)],
    raw=[True, False],
    deep={"lengths": lambda st: st.lists(st.integers(0, 1300), min_size=1, max_size=4).map(tuple)},
)
def topk_transform_512(
    library: Any,
    draw: Draw,
    *,
    lengths: tuple[int, ...],
    page: int,
    order: str,
    index_dtypes: tuple[torch.dtype, torch.dtype],
    raw: bool,
) -> Call:
    """Distinct scores: the places of the largest in the sequence, and in the cache, in any order."""
    columns, rows = 1100, len(lengths)
    places = torch.stack([draw.permutation(columns) for _ in lengths])
    if order != "any":
        places = places.sort(-1, descending=order == "falling").values
    scores = places.float() / 7 - 50
    pages = columns // page + 1
    table = draw.permutation(rows * pages).reshape(rows, pages).to(index_dtypes[1])
    indices, slots = draw.output((rows, CHOSEN + 8), torch.int32), draw.output((rows, CHOSEN + 8), torch.int32)
    before = slots[:, CHOSEN:].clone()

    def run() -> dict[str, torch.Tensor]:
        sizes = torch.tensor(lengths, dtype=index_dtypes[0])
        library.topk_transform_512_cpu(scores, sizes, table, slots, page, indices if raw else None)
        found = {"slots": slots[:, :CHOSEN].sort(-1).values, "rest": slots[:, CHOSEN:]}
        if not raw:
            return found
        at = indices[:, :CHOSEN].argsort(-1)
        paired = slots.gather(1, at)
        return found | {"indices": indices.gather(1, at), "paired": paired, "rest of indices": indices[:, CHOSEN:]}

    def expected() -> dict[str, Exact]:
        chosen = torch.full((rows, CHOSEN), -1)
        for row, length in enumerate(lengths):
            largest = sparse_indexer.largest(scores[row, :length], CHOSEN)
            chosen[row, CHOSEN - len(largest) :] = largest
        paired = table.long().gather(1, chosen.clamp(min=0) // page) * page + chosen % page
        paired = torch.where(chosen < 0, -1, paired).int()
        wanted = {"slots": Exact(paired.sort(-1).values), "rest": Exact(before)}
        if not raw:
            return wanted
        return wanted | {"indices": Exact(chosen.int()), "paired": Exact(paired), "rest of indices": Exact(before)}

    return Call(run, expected)


@cases("topk_transform_512_cpu", values=["few", "equal", "infinite"])
def topk_transform_512_ties(library: Any, draw: Draw, *, values: str) -> Call:
    """Equal scores: any of them may be chosen, but no place twice."""
    scores = draw.integers((2, 1500), 0, 1 if values == "equal" else 9).float()
    if values == "infinite":
        scores = torch.where(scores < 4, -torch.inf, torch.where(scores > 6, torch.inf, scores))
    indices, slots = draw.output((2, CHOSEN), torch.int32), draw.output((2, CHOSEN), torch.int32)
    lengths, table = torch.tensor([1500, 600]), torch.arange(2 * 94).reshape(2, 94)

    def judge(got: torch.Tensor) -> str:
        for row, length in enumerate(lengths.tolist()):
            chosen = got[row].long()
            if len(chosen.unique()) < CHOSEN or not bool(((chosen >= 0) & (chosen < length)).all()):
                return f"row {row} has places twice or outside of the sequence"
            if not torch.equal(scores[row][chosen].sort().values, scores[row, :length].sort().values[-CHOSEN:]):
                return f"row {row} has not the largest scores"
        return ""

    def run() -> dict[str, torch.Tensor]:
        library.topk_transform_512_cpu(scores, lengths, table, slots, 16, indices)
        return {"indices": indices}

    return Call(run, lambda: {"indices": Judged(judge)})


@cases(
    "topk_transform_512_cpu",
    problem=["type", "out type", "columns", "lengths", "pages", "page", "no page", "raw", "raw type", "strided"],
)
def topk_transform_512_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together, and pages of other sizes than powers of two, are refused."""
    scores = draw.normal((2, 16), torch.float64 if problem == "type" else torch.float32)
    if problem == "strided":
        scores = draw.strided(scores)
    columns = 511 if problem == "columns" else CHOSEN
    slots = draw.output((2, columns), torch.int64 if problem == "out type" else torch.int32)
    indices = draw.output((2, columns + (problem == "raw")), torch.int64 if problem == "raw type" else torch.int32)
    lengths = torch.full([3 if problem == "lengths" else 2], 16, dtype=torch.int32)
    table = torch.zeros((3 if problem == "pages" else 2, 16), dtype=torch.int32)
    page = {"page": 12, "no page": 0}.get(problem, 16)
    return refused(lambda: library.topk_transform_512_cpu(scores, lengths, table, slots, page, indices))
