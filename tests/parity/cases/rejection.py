"""Acceptance of drafted tokens (speculative decoding), and what goes with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact
from oracles import sampling

PLACEHOLDER = -1
"""What callers put where no token will be."""
REQUESTS = [0, 1, 2, 17, 130]
LENGTHS = [1, 3, 8]


def _splits(draw: Draw, requests: int, longest: int) -> tuple[list[slice], torch.Tensor]:
    """Return each request's drafts, of which there may be none, and the sums of their numbers."""
    counts = draw.integers([requests], 0, longest + 1)
    ends = counts.cumsum(0)
    return [slice(int(end - count), int(end)) for end, count in zip(ends, counts, strict=True)], ends


def _mask(draw: Draw, requests: int, kind: str) -> torch.Tensor | None:
    if kind == "none":
        return None
    return draw.integers([requests], 0, 2).bool() if kind == "some" else torch.ones(requests, dtype=torch.bool)


def _filled(output: torch.Tensor, rows: Sequence[list[int] | None]) -> dict[str, Exact]:
    """Return the output with tokens at the start of rows; None leaves a row alone."""
    wanted = output.clone()
    for number, tokens in enumerate(rows):
        if tokens is not None:
            wanted[number, : len(tokens)] = torch.tensor(tokens, dtype=wanted.dtype)
    return {"output": Exact(wanted)}


def _tokens(draw: Draw, requests: int, longest: int) -> torch.Tensor:
    """Return where a request's tokens go: the rows of a wider tensor."""
    return draw.strided(torch.full((requests, longest + 1), PLACEHOLDER), padding=3)


@cases(
    "rejection_greedy_sample_kernel_impl",
    requests=REQUESTS,
    longest=LENGTHS,
    greedy=["none", "some", "all"],
    # How often a draft is the best token.
    agreement=[0.0, 0.7, 1.0],
)
def rejection_greedy_sample(
    library: Any, draw: Draw, *, requests: int, longest: int, greedy: str, agreement: float
) -> Call:
    """Drafts are accepted as long as they are the best tokens; rows of other requests stay."""
    splits, ends = _splits(draw, requests, longest)
    count = splits[-1].stop if splits else 0
    best = draw.integers([count], 0, 1000)
    drafts = torch.where(draw.uniform([count], 0, 1) < agreement, best, best + draw.integers([count], 1, 9))
    drafts[::11] = torch.where(drafts[::11] == best[::11], drafts[::11], PLACEHOLDER)
    bonus = draw.strided(draw.integers([requests, 1], 0, 1000))
    mask = _mask(draw, requests, greedy)
    output = _tokens(draw, requests, longest)

    def run() -> dict[str, torch.Tensor]:
        library.rejection_greedy_sample_kernel_impl(output, ends, drafts, best, bonus, mask, longest)
        return {"output": output}

    def expected() -> dict[str, Exact]:
        rows = [
            sampling.greedy_rejection(drafts[part].tolist(), best[part].tolist(), int(bonus[number]))
            if mask is None or mask[number]
            else None
            for number, part in enumerate(splits)
        ]
        return _filled(output, rows)

    return Call(run, expected)


@cases(
    "rejection_random_sample_kernel_impl",
    requests=REQUESTS,
    longest=LENGTHS,
    greedy=["none", "some", "all"],
    drafted=[True, False],
    vocabulary=[1, 17, 256],
)
def rejection_random_sample(
    library: Any, draw: Draw, *, requests: int, longest: int, greedy: str, drafted: bool, vocabulary: int
) -> Call:
    """A draft is accepted with the ratio of its probabilities; without the draft's it counts as certain."""
    splits, ends = _splits(draw, requests, longest)
    count = splits[-1].stop if splits else 0
    target = torch.softmax(draw.normal((count, vocabulary), scale=2.0), -1)
    draft = torch.softmax(target.log() + draw.normal((count, vocabulary), scale=0.5), -1)
    drafts = draw.integers([count], 0, vocabulary)
    uniform = draw.uniform([count], 0, 1) * (1.0 if drafted else 0.2)
    _at_the_edge(target, draft, drafts, uniform)
    target, draft = draw.strided(target), draw.strided(draft)
    recovered, bonus = draw.integers([count], 0, 1000), draw.strided(draw.integers([requests, 1], 0, 1000))
    mask = _mask(draw, requests, greedy)
    output = _tokens(draw, requests, longest)

    def run() -> dict[str, torch.Tensor]:
        library.rejection_random_sample_kernel_impl(
            output,
            ends,
            drafts,
            draft if drafted else None,
            target,
            bonus,
            recovered,
            uniform,
            mask,
            longest,
            vocabulary,
            not drafted,
        )
        return {"output": output}

    def expected() -> dict[str, Exact]:
        places = torch.arange(count)
        p = target[places, drafts].double()
        q = draft[places, drafts].double() if drafted else torch.ones(count).double()
        rows = [
            sampling.random_rejection(
                drafts[part].tolist(),
                p[part],
                q[part],
                uniform[part].double(),
                recovered[part].tolist(),
                int(bonus[number]),
            )
            if mask is None or not mask[number]
            else None
            for number, part in enumerate(splits)
        ]
        return _filled(output, rows)

    return Call(run, expected)


def _at_the_edge(target: torch.Tensor, draft: torch.Tensor, drafts: torch.Tensor, uniform: torch.Tensor) -> None:
    """Make some ratios equal to what they are compared with, exactly, and some probabilities zero."""
    for place in range(0, len(drafts), 5):
        match place % 4:
            case 0:
                target[place, drafts[place]], draft[place, drafts[place]], uniform[place] = 0.25, 1.0, 0.25
            case 1:
                target[place, drafts[place]], uniform[place] = 0.0, 0.0
            case 2:
                draft[place, drafts[place]] = 0.0
            case 3:
                target[place, drafts[place]], uniform[place] = 0.0, 2.0**-30


@cases(
    "expand_kernel_impl",
    requests=REQUESTS,
    longest=LENGTHS,
    # What is replaced, and by what: nothing that occurs, the placeholder, a common value.
    replaced=[(-7, 5), (-1, 0), (2, 3)],
)
def expand(library: Any, draw: Draw, *, requests: int, longest: int, replaced: tuple[int, int]) -> Call:
    """Each request's value once for each of its drafts."""
    splits, ends = _splits(draw, requests, longest)
    values = draw.integers([requests], -1, 4)
    output = draw.output([splits[-1].stop if splits else 0], torch.int64)

    def run() -> dict[str, torch.Tensor]:
        library.expand_kernel_impl(output, values, ends, *replaced)
        return {"output": output}

    def expected() -> dict[str, Exact]:
        counts = torch.tensor([part.stop - part.start for part in splits], dtype=torch.int64)
        changed = torch.where(values == replaced[0], replaced[1], values)
        return {"output": Exact(changed.repeat_interleave(counts))}

    return Call(run, expected)


@cases(
    "sample_recovered_tokens_kernel_impl",
    deep={"vocabulary": lambda st: st.integers(1, 300)},
    requests=[0, 1, 2, 17],
    longest=LENGTHS,
    drafted=[True, False],
    vocabulary=[1, 2, 15, 16, 17, 33, 1000],
)
def sample_recovered_tokens(
    library: Any, draw: Draw, *, requests: int, longest: int, drafted: bool, vocabulary: int
) -> Call:
    """A replacement for each draft; a request's drafts share its noise."""
    splits, ends = _splits(draw, requests, longest)
    count = splits[-1].stop if splits else 0
    target = draw.strided(torch.softmax(draw.normal((count, vocabulary)), -1))
    draft = draw.strided(torch.softmax(draw.normal((count, vocabulary)), -1))
    # Where the models agree nothing is left, and the first token is taken.
    draft[::7] = target[::7]
    drafts = draw.integers([count], 0, vocabulary)
    weights = draw.strided(-1 / draw.uniform((requests, vocabulary), 1e-6, 1).log().clamp(max=-1e-6))
    output = draw.output([count], torch.int64)

    def run() -> dict[str, torch.Tensor]:
        library.sample_recovered_tokens_kernel_impl(
            output, ends, drafts, draft if drafted else None, target, weights, vocabulary, not drafted
        )
        return {"output": output}

    def expected() -> dict[str, Exact]:
        certain = torch.nn.functional.one_hot(drafts, vocabulary)
        q = (draft if drafted else certain).double()
        tokens = [
            sampling.recovered_token(target[place].double(), q[place], weights[number].double())
            for number, part in enumerate(splits)
            for place in range(part.start, part.stop)
        ]
        return {"output": Exact(torch.tensor(tokens, dtype=torch.int64))}

    return Call(run, expected)
