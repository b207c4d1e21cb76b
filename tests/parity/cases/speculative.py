"""Bookkeeping between a step of the target model and the drafts of an EAGLE or DFlash head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact
from oracles import speculative

REQUESTS = [0, 1, 2, 17, 130]
UNTOUCHED = -77


def _exact(**values: list[int] | list[bool]) -> dict[str, Exact]:
    """Return outputs of 64-bit integers, 32-bit ones where the name ends so, or booleans."""
    dtypes = {name: torch.int32 if name.endswith("_indices") else torch.int64 for name in values}
    return {
        name: Exact(torch.tensor(value, dtype=torch.bool if name.endswith("mask") else dtypes[name]))
        for name, value in values.items()
    }


def _starts(counts: torch.Tensor) -> torch.Tensor:
    """Return where each request's tokens begin, and where the last ones end; 32-bit."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()


@cases("eagle_prepare_inputs_padded_kernel_impl", requests=REQUESTS, longest=[0, 1, 4])
def eagle_prepare_inputs_padded(library: Any, draw: Draw, *, requests: int, longest: int) -> Call:
    """Requests with and without drafts, some of which were rejected; one that is discarded has no valid token."""
    drafted = draw.integers([requests], 0, longest + 1)
    valid = (draw.uniform([requests], 0, 1) * (drafted + 1)).long() + 1
    valid[::7] = 0
    starts = _starts(drafted + 1 + draw.integers([requests], 0, 5))
    indices, rejected = draw.output([requests], torch.int32), draw.output([requests], torch.int64)

    def run() -> Mapping[str, torch.Tensor]:
        library.eagle_prepare_inputs_padded_kernel_impl(drafted.cumsum(0), valid, starts, indices, rejected, requests)
        return {"indices": indices, "rejected": rejected}

    def expected() -> Mapping[str, Exact]:
        lost = [speculative.rejected_tokens(*pair) for pair in zip(drafted.tolist(), valid.tolist(), strict=True)]
        last = [int(end) - 1 - number for end, number in zip(starts[1:], lost, strict=True)]
        return {
            "indices": Exact(torch.tensor(last, dtype=torch.int32)),
            "rejected": Exact(torch.tensor(lost, dtype=torch.int64)),
        }

    return Call(run, expected)


@cases("eagle_prepare_next_token_padded_kernel_impl", requests=REQUESTS, width=[1, 4, 9], strided=[False, True])
def eagle_prepare_next_token_padded(library: Any, draw: Draw, *, requests: int, width: int, strided: bool) -> Call:
    """Valid tokens, -1, and tokens of a larger vocabulary; some requests have none, some are discarded."""
    vocabulary = 100
    sampled = draw.integers((requests, width), -1, vocabulary)
    hidden = draw.uniform((requests, width), 0, 1)
    sampled[hidden < 0.3] = -1
    sampled[hidden > 0.8] = vocabulary
    sampled[::5] = -1
    sampled = draw.strided(sampled, padding=2) if strided else sampled
    discarded = draw.integers([requests], 0, 3) == 0
    backup = draw.integers([requests], 0, vocabulary)
    tokens, counts = draw.output([requests], torch.int64), draw.output([requests], torch.int64)

    def run() -> Mapping[str, torch.Tensor]:
        library.eagle_prepare_next_token_padded_kernel_impl(
            sampled, discarded, backup, tokens, counts, vocabulary, width, requests
        )
        return {"tokens": tokens, "counts": counts}

    def expected() -> Mapping[str, Exact]:
        wanted = [
            speculative.next_token(row.tolist(), vocabulary, int(other), discarded=bool(gone))
            for row, other, gone in zip(sampled, backup, discarded, strict=True)
        ]
        return _exact(tokens=[token for token, _ in wanted], counts=[count for _, count in wanted])

    return Call(run, expected)


@cases(
    "eagle_step_slot_mapping_metadata_kernel_impl",
    requests=REQUESTS,
    padding=[0, 5],
    block_size=[1, 16, 128],
    strided=[False, True],
    # Blocks of a request; of fewer than the context has, the last one stands for what is behind.
    blocks=[20, 7],
)
def eagle_step_slot_mapping_metadata(
    library: Any, draw: Draw, *, requests: int, padding: int, block_size: int, strided: bool, blocks: int
) -> Call:
    """Requests in the middle of the context, at its end and behind it; what is behind the requests is padding."""
    longest = 20 * block_size
    positions = draw.integers([requests], 0, longest - 2)
    edges = torch.tensor([longest - 1, longest - 2, longest, 0, block_size - 1])[:requests]
    positions[: len(edges)] = edges
    table = draw.integers((requests, blocks), 0, 2**31 // block_size - 1, torch.int32)
    table = draw.strided(table) if strided else table
    lengths = draw.guarded(torch.minimum(positions + 1 + draw.integers([requests], 0, 2), torch.tensor(longest)).int())
    clamped, slots = draw.output([requests], torch.int64), draw.output([requests + padding], torch.int64)

    def run() -> Mapping[str, torch.Tensor]:
        library.eagle_step_slot_mapping_metadata_kernel_impl(
            positions, table, lengths, clamped, slots, block_size, longest, -1
        )
        return {"clamped": clamped, "slots": slots, "lengths": lengths}

    def expected() -> Mapping[str, Exact]:
        fits = positions + 1 < longest
        following = torch.where(fits, positions + 1, 0)
        wanted = [
            speculative.slot(int(position), row.tolist(), block_size) if inside else -1
            for position, row, inside in zip(following, table, fits, strict=True)
        ]
        grown = torch.where(fits, lengths + 1, 1).clamp(max=longest)
        return {"clamped": Exact(following), "lengths": Exact(grown.int())} | _exact(slots=wanted + [-1] * padding)

    return Call(run, expected)


@cases(
    "copy_and_expand_eagle_inputs_kernel_impl",
    requests=REQUESTS,
    slots=[1, 2, 5],
    shifted=[True, False],
    longest=[1, 3, 20],
)
def copy_and_expand_eagle_inputs(
    library: Any, draw: Draw, *, requests: int, slots: int, shifted: bool, longest: int
) -> Call:
    """Shifted tokens lose the first one; hidden states then move with the others."""
    counts = draw.integers([requests], 1, longest + 1)
    starts = _starts(counts)
    ends = (starts[1:].long() - 1 - (draw.uniform([requests], 0, 1) * counts).long()).int()
    total = int(starts[-1])
    tokens, new = draw.integers([total], 0, 1000), draw.integers([requests], 0, 1000)
    positions = torch.cat([torch.arange(int(n)) + int(draw.integers([1], 0, 4096)) for n in counts] or [tokens])
    size = total + requests * (slots - shifted)
    outputs = {
        "tokens": draw.output([size], torch.int64),
        "positions": draw.output([size], torch.int64),
        "rejected_mask": draw.output([size], torch.bool),
        "masked_mask": draw.output([size], torch.bool),
        "new_indices": draw.output([requests * slots], torch.int32),
        "hidden_indices": draw.guarded(torch.full([total], UNTOUCHED, dtype=torch.int32)),
    }
    padding, mask = 1001, 1002

    def run() -> Mapping[str, torch.Tensor]:
        library.copy_and_expand_eagle_inputs_kernel_impl(
            tokens, positions, new, *outputs.values(), starts, ends, padding, mask, total, slots, shifted
        )
        return outputs

    def expected() -> Mapping[str, Exact]:
        batch = speculative.Expanded()
        moved: list[int] = []
        for first, after, last, token in zip(starts, starts[1:], ends, new, strict=False):
            moved += range(len(batch.tokens), len(batch.tokens) + int(after - first))
            valid = tokens[int(first) + shifted : int(last) + 1].tolist()
            batch.add(valid, int(after - last) - 1, int(positions[first]), int(token), [mask] * (slots - 1), padding)
        return _exact(
            tokens=batch.tokens,
            positions=batch.positions,
            rejected_mask=batch.rejected,
            masked_mask=batch.masked,
            new_indices=batch.new,
            hidden_indices=moved if shifted else [UNTOUCHED] * total,
        )

    return Call(run, expected)


@cases(
    "copy_and_expand_dflash_inputs_kernel_impl",
    requests=[1, 2, 17, 130],
    drafts=[1, 4],
    block_size=[1, 16],
    rejected=["absent", "ignored", "used"],
    # Whether the block table holds the positions of the drafts, too.
    roomy=[True, False],
)
def copy_and_expand_dflash_inputs(
    library: Any, draw: Draw, *, requests: int, drafts: int, block_size: int, rejected: str, roomy: bool
) -> Call:
    """Each request's context, and after its last valid token the new one and the masks to draft in."""
    counts = draw.integers([requests], 1, 12)
    starts = _starts(counts)
    total, width = int(starts[-1]), drafts + 1
    first = draw.integers([requests], 0, 50)
    positions = torch.cat([torch.arange(int(n)) + int(at) for n, at in zip(counts, first, strict=True)])
    blocks = (62 + drafts) // block_size + 1 if roomy else max(40 // block_size, 1)
    table = draw.integers((requests, blocks), 0, 2**31 // block_size - 1, torch.int32)
    new = draw.integers([requests], 0, 1000)
    lost = (draw.uniform([requests], 0, 1) * counts).long()
    lost[1::4] = counts[1::4]  # all are rejected: the new token stands behind the first one
    outputs = {
        "tokens": draw.output([requests * width], torch.int64),
        "context_positions": draw.output([total], torch.int64),
        "positions": draw.output([requests * width], torch.int64),
        "context_slots": draw.output([total], torch.int64),
        "slots": draw.output([requests * width], torch.int64),
        "sampled_indices": draw.output([requests * drafts], torch.int32),
    }
    mask = 1001

    def run() -> Mapping[str, torch.Tensor]:
        library.copy_and_expand_dflash_inputs_kernel_impl(
            new,
            positions,
            *outputs.values(),
            table,
            starts,
            None if rejected == "absent" else lost,
            mask,
            block_size,
            width,
            drafts,
            total,
            rejected == "used",
        )
        return outputs

    def expected() -> Mapping[str, Exact]:
        ends = (starts[1:] - 1 - (lost if rejected == "used" else 0)).maximum(starts[:-1])
        query = [[int(positions[end]) + 1 + step for step in range(width)] for end in ends]
        rows = table.tolist()
        owners = torch.arange(requests).repeat_interleave(counts).tolist()
        return _exact(
            tokens=[token for each in new.tolist() for token in [each] + [mask] * drafts],
            context_positions=positions.tolist(),
            positions=[position for each in query for position in each],
            context_slots=[
                speculative.slot(position, rows[owner], block_size)
                for position, owner in zip(positions.tolist(), owners, strict=True)
            ],
            slots=[
                speculative.slot(position, row, block_size)
                for row, each in zip(rows, query, strict=True)
                for position in each
            ],
            sampled_indices=[place for place in range(requests * width) if place % width],
        )

    return Call(run, expected)
