"""Communication of the ranks of one machine, by shared memory.

All ranks are real processes. ``run_ranks`` notes here what they called there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cases.joined import flat, flat_near
from harness.case import Call, cases, refusal
from harness.draw import Draw
from harness.expected import Exact, Expected
from harness.ranks import Member, remove_segments, run_group, run_ranks, shared
from oracles import shared_memory as oracle

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
MANAGER = ("init_shm_manager", "join_shm_manager")
# Ranks, and parts that each one's work is divided into: one of them has at least 256 bytes.
GROUPS = [(2, 1), (2, 3), (3, 1)]
GROUP_CASES = {
    "dtype": DTYPES,
    "group": GROUPS,
    "where": lambda dtype, group: dtype == torch.float32 or group == (2, 3),
}
SIZES = (1, 15, 17, 0, 33, 64, 129, 1000, 5120)
BUFFER = 2 << 20
"""Bytes that a part's buffer holds; what is longer takes several rounds."""
_HELD = BUFFER // torch.float32.itemsize
LONG = (_HELD, _HELD + 1, 7, 2 * _HELD + 17)


def outputs(parts: Sequence[Sequence[torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Name what each rank has for each size."""
    return {f"rank{rank}_{place}": part for rank, row in enumerate(parts) for place, part in enumerate(row)}


@cases("shm_allreduce", *MANAGER, **GROUP_CASES)
def shm_allreduce(library: Any, draw: Draw, *, dtype: torch.dtype, group: tuple[int, int]) -> Call:
    """Each rank has the sum of all."""
    return _allreduce(library, draw, dtype, group, SIZES)


@cases("shm_allreduce", *MANAGER, dtype=[torch.float32], ranks=[4, 8])
def shm_allreduce_many(library: Any, draw: Draw, *, dtype: torch.dtype, ranks: int) -> Call:
    """The other numbers of ranks for which there are sums: vectors, a rest, and both."""
    return _allreduce(library, draw, dtype, (ranks, 1), (16, 5, 1000))


@cases("shm_allreduce", *MANAGER, dtype=[torch.float32], sizes=[LONG])
def shm_allreduce_long(library: Any, draw: Draw, *, dtype: torch.dtype, sizes: tuple[int, ...]) -> Call:
    """As much as a buffer holds, one more, and several buffers."""
    return _allreduce(library, draw, dtype, (2, 1), sizes)


@cases("shm_allreduce", *MANAGER, dtype=[torch.float32], times=[300])
def shm_allreduce_often(library: Any, draw: Draw, *, dtype: torch.dtype, times: int) -> Call:
    """So often that the ranks' counters, which are bytes, begin again."""
    return _allreduce(library, draw, dtype, (2, 1), (33,) * times)


def _allreduce(library: Any, draw: Draw, dtype: torch.dtype, group: tuple[int, int], sizes: Sequence[int]) -> Call:
    ranks, slots = group
    inputs = [[draw.normal([size], dtype) for size in sizes] for _ in range(ranks)]
    data = [[shared(draw.guarded(each)) for each in row] for row in inputs]

    def body(member: Member) -> None:
        for each in data[member.rank]:
            library.shm_allreduce(member.handle, each)

    def run() -> dict[str, torch.Tensor]:
        run_group(library, ranks, slots, body)
        return {"out": flat([each for row in data for each in row])}

    def expected() -> dict[str, Expected]:
        sums = [oracle.total([row[place].double() for row in inputs]) for place in range(len(sizes))]
        return {"out": flat_near(sums * ranks)}

    return Call(run, expected)


@cases("shm_gather", *MANAGER, **GROUP_CASES)
def shm_gather(library: Any, draw: Draw, *, dtype: torch.dtype, group: tuple[int, int]) -> Call:
    """Each rank in turn gets what all have, in the order of the ranks."""
    return _gather(library, draw, dtype, group, SIZES)


@cases("shm_gather", *MANAGER, sizes=[LONG])
def shm_gather_long(library: Any, draw: Draw, *, sizes: tuple[int, ...]) -> Call:
    """As much as a buffer holds, one more, and several buffers."""
    return _gather(library, draw, torch.float32, (2, 1), sizes)


def _gather(library: Any, draw: Draw, dtype: torch.dtype, group: tuple[int, int], sizes: Sequence[int]) -> Call:
    """Who only sends does not wait for who receives: the ranks have to meet after each call, as they do in a model."""
    ranks, slots = group
    inputs = [[draw.normal([size], dtype) for size in sizes] for _ in range(ranks)]
    received = [[shared(draw.output((ranks, size), dtype)) for size in sizes] for _ in range(ranks)]

    def body(member: Member) -> None:
        for place in range(len(sizes)):
            for receiver in range(ranks):
                parts = list(received[receiver][place]) if receiver == member.rank else None
                library.shm_gather(member.handle, inputs[member.rank][place], parts, receiver)
                member.barrier.wait()

    def run() -> dict[str, torch.Tensor]:
        run_group(library, ranks, slots, body)
        return outputs(received)

    def expected() -> dict[str, Expected]:
        stacks = [Exact(torch.stack([row[place] for row in inputs])) for place in range(len(sizes))]
        return {f"rank{rank}_{place}": stack for rank in range(ranks) for place, stack in enumerate(stacks)}

    return Call(run, expected)


@cases("shm_all_gather", *MANAGER, **GROUP_CASES)
def shm_all_gather(library: Any, draw: Draw, *, dtype: torch.dtype, group: tuple[int, int]) -> Call:
    """Each rank gets what all have, in the order of the ranks."""
    return _all_gather(library, draw, dtype, group, [size for size in SIZES if size])


@cases("shm_all_gather", *MANAGER, sizes=[LONG])
def shm_all_gather_long(library: Any, draw: Draw, *, sizes: tuple[int, ...]) -> Call:
    """As much as a buffer holds, one more, and several buffers."""
    return _all_gather(library, draw, torch.float32, (2, 1), sizes)


def _all_gather(library: Any, draw: Draw, dtype: torch.dtype, group: tuple[int, int], sizes: Sequence[int]) -> Call:
    ranks, slots = group
    inputs = [[draw.normal([size], dtype) for size in sizes] for _ in range(ranks)]
    received = [[shared(draw.output((ranks * size,), dtype)) for size in sizes] for _ in range(ranks)]

    def body(member: Member) -> None:
        for part, out in zip(inputs[member.rank], received[member.rank], strict=True):
            library.shm_all_gather(member.handle, part, out)

    def run() -> dict[str, torch.Tensor]:
        run_group(library, ranks, slots, body)
        return outputs(received)

    def expected() -> dict[str, Expected]:
        joined = [Exact(torch.cat([row[place] for row in inputs])) for place in range(len(sizes))]
        return {f"rank{rank}_{place}": each for rank in range(ranks) for place, each in enumerate(joined)}

    return Call(run, expected)


LISTS = {
    # What goes from one part of a model to the next, with the bytes of a description.
    "model": [((3, 4096), torch.bfloat16), ((3, 4096), torch.bfloat16), ((201,), torch.uint8)],
    "types": [
        ((5, 3), torch.float32),
        ((17,), torch.float16),
        ((1,), torch.int8),
        ((2, 0), torch.float32),
        ((9,), torch.int64),
        ((33,), torch.int32),
        ((70,), torch.uint8),
    ],
    "long": [((BUFFER // 4 - 60,), torch.float32), ((3,), torch.int8), ((BUFFER + 77,), torch.uint8)],
}


@cases(
    "shm_send_tensor_list",
    "shm_recv_tensor_list",
    *MANAGER,
    group=GROUPS,
    kinds=[("model",), ("types", "model", "types"), ("long", "types")],
)
def shm_send_tensor_list(library: Any, draw: Draw, *, group: tuple[int, int], kinds: tuple[str, ...]) -> Call:
    """Each rank gets lists from the one before, and gives them to the one behind: tensors of any types, flattened."""
    ranks, slots = group
    sent = [[_any(draw, shape, dtype) for shape, dtype in LISTS[kind]] for kind in kinds]
    received = [
        [[shared(draw.output((each.numel(),), each.dtype)) for each in tensors] for tensors in sent]
        for _ in range(1, ranks)
    ]

    def body(member: Member) -> None:
        for place, tensors in enumerate(sent):
            given = tensors
            if member.rank > 0:
                given = library.shm_recv_tensor_list(member.handle, member.rank - 1)
                _keep(given, received[member.rank - 1][place])
            if member.rank < ranks - 1:
                library.shm_send_tensor_list(member.handle, given, member.rank + 1)

    def run() -> dict[str, torch.Tensor]:
        run_group(library, ranks, slots, body)
        return outputs([[each for tensors in lists for each in tensors] for lists in received])

    def expected() -> dict[str, Expected]:
        flat = [Exact(each.flatten()) for tensors in sent for each in tensors]
        return {f"rank{rank}_{place}": each for rank in range(ranks - 1) for place, each in enumerate(flat)}

    return Call(run, expected)


@cases("shm_recv_tensor_list", "shm_send_tensor_list", *MANAGER, slots=[1, 2])
def shm_recv_tensor_list(library: Any, draw: Draw, *, slots: int) -> Call:
    """Two ranks send to each other in turn."""
    sent = [[_any(draw, shape, dtype) for shape, dtype in LISTS["types"]] for _ in range(6)]
    received = [[shared(draw.output((each.numel(),), each.dtype)) for each in tensors] for tensors in sent]

    def body(member: Member) -> None:
        for turn, tensors in enumerate(sent):
            if turn % 2 == member.rank:
                library.shm_send_tensor_list(member.handle, tensors, 1 - member.rank)
            else:
                _keep(library.shm_recv_tensor_list(member.handle, 1 - member.rank), received[turn])

    def run() -> dict[str, torch.Tensor]:
        run_group(library, 2, slots, body)
        return outputs(received)

    def expected() -> dict[str, Expected]:
        return {name: Exact(each) for name, each in outputs([[x.flatten() for x in row] for row in sent]).items()}

    return Call(run, expected)


def _any(draw: Draw, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return draw.normal(shape, dtype) if dtype.is_floating_point else draw.integers(shape, 0, 100, dtype)


def _keep(given: Sequence[torch.Tensor], places: Sequence[torch.Tensor]) -> None:
    """Copy what a rank received to where it is compared."""
    assert [(each.shape, each.dtype) for each in given] == [(place.shape, place.dtype) for place in places]
    for each, place in zip(given, places, strict=True):
        place.copy_(each)


@cases(
    "init_shm_manager",
    "join_shm_manager",
    "shm_allreduce",
    "shm_gather",
    "shm_all_gather",
    "shm_send_tensor_list",
    ranks=[5],
)
def init_shm_manager(library: Any, draw: Draw, *, ranks: int) -> Call:
    """What is refused; one process is enough for that. Sums have no kernel for five ranks."""
    flags = shared(draw.output((len(_refused(library, "", 0)),), torch.int64))

    def body() -> None:
        name = f"parity-{secrets.token_hex(8)}"
        try:
            handle = library.init_shm_manager(name, ranks, 0, 1)
            for place, call in enumerate(_refused(library, name, handle).values()):
                flags[place] = refusal(call)["refused"].item()
        finally:
            remove_segments(name)

    def run() -> Mapping[str, torch.Tensor]:
        run_ranks(library, [body])
        return {name: flags[place] for place, name in enumerate(_refused(library, "", 0))}

    return Call(run, lambda: {name: Exact(torch.tensor(1)) for name in _refused(library, "", 0)})


def _refused(library: Any, name: str, handle: int) -> dict[str, Callable[[], object]]:
    """Return calls that are refused by a rank whose group has five, of which it knows only itself."""
    data, apart = torch.ones(8), torch.ones(8, 2)[:, 0]
    return {
        "name that is taken": lambda: library.init_shm_manager(name, 5, 0, 1),
        "nine ranks": lambda: library.init_shm_manager(f"{name}_more", 9, 0, 1),
        "others that are not there": lambda: library.join_shm_manager(handle, name),
        "sum of five": lambda: library.shm_allreduce(handle, data),
        "sum of rows apart": lambda: library.shm_allreduce(handle, apart),
        "sum of integers": lambda: library.shm_allreduce(handle, data.int()),
        "gathered by no rank": lambda: library.shm_gather(handle, data, None, 5),
        "gathered rows apart": lambda: library.shm_gather(handle, apart, None, 1),
        "gathered integers": lambda: library.shm_gather(handle, data.int(), None, 1),
        "too short for all": lambda: library.shm_all_gather(handle, data, torch.ones(39)),
        "too long for all": lambda: library.shm_all_gather(handle, data, torch.ones(48)),
        "all rows apart": lambda: library.shm_all_gather(handle, apart, torch.ones(40)),
        "no tensors": lambda: library.shm_send_tensor_list(handle, [], 1),
        "eight tensors": lambda: library.shm_send_tensor_list(handle, [data] * 8, 1),
        "tensor of rows apart": lambda: library.shm_send_tensor_list(handle, [apart], 1),
    }
