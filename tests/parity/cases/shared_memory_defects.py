"""Calls that the communication of ranks takes and gets wrong; docs/findings.md has one heading for each."""

from __future__ import annotations

import time
from typing import Any

import torch

from cases.shared_memory import MANAGER
from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact
from harness.ranks import Member, run_group, shared

TIMES = 4
PATIENCE = 3
"""Seconds that ranks get: what hangs here would hang for ever."""


@cases("shm_gather", *MANAGER)
def shm_gather_ahead(library: Any, draw: Draw) -> Call:
    """A rank that only sends runs ahead of the one that receives, which is late."""
    sent = [draw.normal([16]) for _ in range(TIMES)]
    received = [shared(draw.output((2, 16), torch.float32)) for _ in range(TIMES)]

    def body(member: Member) -> None:
        if member.rank == 0:
            time.sleep(0.1)
        for part, out in zip(sent, received, strict=True):
            library.shm_gather(member.handle, part, list(out) if member.rank == 0 else None, 0)

    def run() -> dict[str, torch.Tensor]:
        run_group(library, 2, 1, body, seconds=PATIENCE)
        return {f"out{place}": out for place, out in enumerate(received)}

    return Call(run, lambda: {f"out{place}": Exact(torch.stack([x, x])) for place, x in enumerate(sent)})


@cases("shm_all_gather", *MANAGER)
def shm_all_gather_nothing(library: Any, draw: Draw) -> Call:  # noqa: ARG001
    """Ranks that have nothing to give."""
    nothing = torch.empty(0)

    def run() -> dict[str, torch.Tensor]:
        run_group(
            library,
            2,
            1,
            lambda member: library.shm_all_gather(member.handle, nothing, torch.empty(0)),
            seconds=PATIENCE,
        )
        return {"out": nothing}

    return Call(run, lambda: {"out": Exact(nothing)})


@cases("shm_allreduce", "shm_gather", "shm_all_gather", "shm_send_tensor_list", *MANAGER, size=[1, 15, 33, 50])
def shm_reads_to_the_end(library: Any, draw: Draw, *, size: int) -> Call:
    """Tensors that end where memory ends."""
    sent = [draw.at_edge(draw.normal([size])) for _ in range(2)]
    sums = [draw.at_edge(draw.normal([size])) for _ in range(2)]  # mapped, hence common to both ranks
    before = [each.clone() for each in sums]
    gathered, joined = (shared(draw.output((2, size), torch.float32)) for _ in range(2))
    listed = shared(draw.output((size,), torch.float32))

    def body(member: Member) -> None:
        mine = sent[member.rank]
        library.shm_allreduce(member.handle, sums[member.rank])
        library.shm_gather(member.handle, mine, list(gathered) if member.rank == 0 else None, 0)
        member.barrier.wait()
        library.shm_all_gather(member.handle, mine, joined.view(-1) if member.rank == 0 else torch.empty(2 * size))
        if member.rank == 0:
            library.shm_send_tensor_list(member.handle, [mine], 1)
        else:
            listed.copy_(library.shm_recv_tensor_list(member.handle, 0)[0])

    def run() -> dict[str, torch.Tensor]:
        run_group(library, 2, 1, body, seconds=PATIENCE)
        return {"sums": torch.stack(sums), "gathered": gathered, "joined": joined, "listed": listed}

    def expected() -> dict[str, Exact]:
        both = Exact(torch.stack(sent))
        total = (before[0] + before[1]).expand(2, size)
        return {"sums": Exact(total), "gathered": both, "joined": both, "listed": Exact(sent[0])}

    return Call(run, expected)


@cases("shm_send_tensor_list", "shm_recv_tensor_list", *MANAGER)
def shm_send_tensor_list_to_two(library: Any, draw: Draw) -> Call:
    """One rank sends a list to each of two others."""
    sent = [draw.normal([16]) for _ in range(2)]
    received = [shared(draw.output((16,), torch.float32)) for _ in range(2)]

    def body(member: Member) -> None:
        if member.rank == 0:
            for place, part in enumerate(sent):
                library.shm_send_tensor_list(member.handle, [part], place + 1)
            return
        if member.rank == 1:
            time.sleep(0.1)
        received[member.rank - 1].copy_(library.shm_recv_tensor_list(member.handle, 0)[0])

    def run() -> dict[str, torch.Tensor]:
        run_group(library, 3, 1, body, seconds=PATIENCE)
        return {f"out{place}": out for place, out in enumerate(received)}

    return Call(run, lambda: {f"out{place}": Exact(x) for place, x in enumerate(sent)})
