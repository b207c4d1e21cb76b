"""Sampling of tokens from logits."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Judged
from oracles import sampling

# Sixteen logits are compared at a time. 128256 is Llama 3's vocabulary.
VOCABULARIES = [1, 2, 15, 16, 17, 31, 33, 257, 1000, 32000]
ROWS = [1, 2, 3, 17]


def _argmax(library: Any, logits: torch.Tensor) -> Call:
    return Call(
        lambda: {"tokens": library.greedy_argmax(logits)},
        lambda: {"tokens": Exact(sampling.first_largest(logits.double()))},
    )


@cases(
    "greedy_argmax",
    deep={"vocabulary": lambda st: st.integers(1, 300), "rows": lambda st: st.integers(0, 9)},
    rows=[0, *ROWS],
    vocabulary=VOCABULARIES,
    strided=[False, True],
    where=lambda rows, vocabulary, **_: rows * vocabulary <= 100_000,
)
def greedy_argmax(library: Any, draw: Draw, *, rows: int, vocabulary: int, strided: bool) -> Call:
    """Ordinary logits; the rows may be parts of wider ones."""
    logits = draw.normal((rows, vocabulary))
    return _argmax(library, draw.strided(logits) if strided else logits)


@cases("greedy_argmax", rows=[2], vocabulary=[128256])
def greedy_argmax_of_llama(library: Any, draw: Draw, *, rows: int, vocabulary: int) -> Call:
    """A large vocabulary, and the best token at its end."""
    logits = draw.normal((rows, vocabulary))
    logits[0, -1] = 100.0
    return _argmax(library, logits)


@cases(
    "greedy_argmax",
    kind=["tied", "zeros", "infinite", "hidden", "nan", "late_nan", "two_nan", "opposite", "extreme"],
    rows=ROWS,
    vocabulary=[17, 33, 200],
)
def greedy_argmax_special(library: Any, draw: Draw, *, kind: str, rows: int, vocabulary: int) -> Call:
    """The first of equal values wins, and the first that is not a number wins over all."""
    logits = draw.normal((rows, vocabulary))
    middle, last = vocabulary // 2, vocabulary - 1
    match kind:
        case "tied":
            logits = draw.integers((rows, vocabulary), -2, 3).float()
        case "zeros":
            logits = draw.integers((rows, vocabulary), 0, 2).float() * -0.0
            logits[:, middle] = 0.0
        case "infinite":
            logits[:, middle] = logits[:, last] = torch.inf
        case "hidden":
            logits[:] = -torch.inf
            logits[::2, last] = -1e30
        case "nan":
            logits[:, middle] = torch.nan
        case "late_nan":
            logits[:, middle] = torch.inf
            logits[:, last] = torch.nan
        case "two_nan":
            logits[:, middle] = logits[:, last] = torch.nan
        case "opposite":
            logits[:, middle], logits[:, last] = torch.inf, -torch.inf
        case "extreme":
            logits = draw.extremes((rows, vocabulary), torch.float32)
    return _argmax(library, logits)


def _gumbel(library: Any, logits: torch.Tensor, seeds: torch.Tensor) -> Call:
    return Call(
        lambda: {"tokens": library.fused_gumbel_argmax(logits, seeds)},
        lambda: {"tokens": Exact(sampling.gumbel_argmax(logits.double(), seeds))},
    )


def _seeds(draw: Draw, rows: int) -> torch.Tensor:
    seeds = draw.integers([rows], -(2**62), 2**62)
    edges = torch.tensor([-1, 0, 1, 2**63 - 1, -(2**63)])[:rows]
    seeds[: len(edges)] = edges
    return seeds


@cases(
    "fused_gumbel_argmax",
    deep={"vocabulary": lambda st: st.integers(1, 300), "rows": lambda st: st.integers(0, 9)},
    rows=[0, *ROWS],
    vocabulary=VOCABULARIES,
    # Flat logits leave the choice to the noise, steep ones to themselves.
    scale=[0.0, 1.0, 10.0],
    where=lambda rows, vocabulary, **_: rows * vocabulary <= 100_000,
)
def fused_gumbel_argmax(library: Any, draw: Draw, *, rows: int, vocabulary: int, scale: float) -> Call:
    """Rows are independent, with a seed for each; seeds at the ends of their range, too."""
    return _gumbel(library, draw.normal((rows, vocabulary), scale=scale), _seeds(draw, rows))


@cases("fused_gumbel_argmax", kind=["masked", "one_left", "none_left", "huge", "tied_huge", "far"], rows=[1, 5, 33])
def fused_gumbel_argmax_special(library: Any, draw: Draw, *, kind: str, rows: int) -> Call:
    """Masked tokens never win, and noise counts among equal logits however large they are."""
    vocabulary = 333
    logits = draw.normal((rows, vocabulary))
    match kind:
        case "masked":
            logits[draw.uniform(logits.shape, 0, 1) < 0.9] = -torch.inf
            logits[:, -1] = 0.0
        case "one_left":
            logits[:, :-1] = -torch.inf
        case "none_left":
            logits[:] = -torch.inf
        case "huge":
            logits *= 1e37
        case "tied_huge":
            logits[:] = torch.finfo(torch.float32).max
            logits[:, ::3] = -torch.inf
        case "far":
            # No noise bridges more than 37.
            logits[:, 7] += 50.0
    return _gumbel(library, logits, _seeds(draw, rows))


@cases("fused_gumbel_argmax", scale=[0.0, 1.0], strided=[False, True])
def fused_gumbel_argmax_distribution(library: Any, draw: Draw, *, scale: float, strided: bool) -> Call:
    """Over many seeds, tokens are as frequent as their softmax says: within five standard deviations."""
    rows, vocabulary = 4096, 12
    row = draw.normal([vocabulary], scale=scale)
    logits = row.repeat(rows, 1)
    if strided:
        logits = draw.strided(logits)
    seeds = torch.arange(rows)
    chance = torch.softmax(row.double(), 0)

    def judge(tokens: torch.Tensor) -> str:
        counts = torch.bincount(tokens, minlength=vocabulary).double()
        apart = (counts - rows * chance).abs() / (rows * chance * (1 - chance)).sqrt()
        return f"frequencies are {float(apart.max()):.1f} standard deviations apart" if float(apart.max()) > 5 else ""

    return Call(lambda: {"tokens": library.fused_gumbel_argmax(logits, seeds)}, lambda: {"tokens": Judged(judge)})


@cases("greedy_argmax", kind=["flat", "deep", "float64", "bfloat16"])
def greedy_argmax_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Logits are float32 matrices."""
    logits = _unsupported_logits(draw, kind)
    return refused(lambda: library.greedy_argmax(logits))


@cases(
    "fused_gumbel_argmax", kind=["flat", "deep", "float64", "bfloat16", "empty", "int32_seeds", "few_seeds", "2d_seeds"]
)
def fused_gumbel_argmax_unsupported(library: Any, draw: Draw, *, kind: str) -> Call:
    """Logits are float32 matrices with a column at least, and there is a 64-bit seed for each row."""
    logits = _unsupported_logits(draw, kind)
    seeds = torch.arange(len(logits))
    match kind:
        case "int32_seeds":
            seeds = seeds.int()
        case "few_seeds":
            seeds = seeds[1:]
        case "2d_seeds":
            seeds = seeds[:, None]
    return refused(lambda: library.fused_gumbel_argmax(logits, seeds))


def _unsupported_logits(draw: Draw, kind: str) -> torch.Tensor:
    shape = {"flat": (4,), "deep": (4, 2, 3), "empty": (4, 0)}.get(kind, (4, 8))
    dtype = {"float64": torch.float64, "bfloat16": torch.bfloat16}.get(kind, torch.float32)
    return draw.normal(shape, dtype)
