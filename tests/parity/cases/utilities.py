"""What is no computation: places in the cache, the machine's memory and processor, operators that are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact
from harness.ranks import run_ranks, shared
from oracles import utilities as oracle


@cases(
    "compute_slot_mapping_kernel_impl",
    lengths=[(1,), (0,), (1, 1, 1, 1), (0, 5, 0, 17), (33, 1, 128, 2)],
    block_size=[1, 16, 48, 128],
    # Whether requests have tokens in the cache, and whether blocks have large numbers.
    cached=[0, 1, 77],
    large=[False, True],
    deep={"lengths": lambda st: st.lists(st.integers(0, 40), min_size=1, max_size=9).map(tuple)},
)
def compute_slot_mapping_kernel_impl(
    library: Any, draw: Draw, *, lengths: tuple[int, ...], block_size: int, cached: int, large: bool
) -> Call:
    """Requests of any lengths; tables and places are for more of them, and what is behind stays as it is."""
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    total, spare = sum(lengths), 5
    positions = torch.cat([torch.arange(cached, cached + length) for length in (*lengths, spare)])
    blocks = (cached + max(lengths)) // block_size + 1
    first = 2**31 - 1 - len(lengths) * blocks if large else 0
    table = draw.output((len(lengths) + 2, blocks + 3), torch.int32)
    table[: len(lengths), :blocks] = (draw.permutation(len(lengths) * blocks) + first).view(len(lengths), blocks)
    mapping = draw.guarded(torch.full((total + spare,), -1))

    def run() -> dict[str, torch.Tensor]:
        library.compute_slot_mapping_kernel_impl(starts, positions, table, mapping, block_size)
        return {"slot_mapping": mapping}

    def expected() -> dict[str, Exact]:
        found = oracle.slots(positions, starts, table, block_size)
        return {"slot_mapping": Exact(torch.cat([found, mapping[total:]]))}

    return Call(run, expected)


@cases("compute_slot_mapping_kernel_impl", wrong=[0, 1, 2, 3])
def compute_slot_mapping_kernel_impl_refused(library: Any, draw: Draw, *, wrong: int) -> Call:
    """Integers of other sizes are refused."""
    tensors = [
        torch.tensor([0, 2], dtype=torch.int32),
        torch.arange(2),
        torch.zeros(1, 4, dtype=torch.int32),
        draw.output((2,), torch.int64),
    ]
    tensors[wrong] = tensors[wrong].to(torch.int64 if tensors[wrong].dtype == torch.int32 else torch.int32)
    return refused(lambda: library.compute_slot_mapping_kernel_impl(*tensors, 4))


@cases("init_cpu_memory_env", nodes=["none", "first", "missing"])
def init_cpu_memory_env(library: Any, draw: Draw, *, nodes: str) -> Call:
    """Memory comes from the nodes that are named, if there are such, and where the kernel allows that.

    It would change all cases behind this one, so another process tries it.
    """
    named = {"none": [], "first": [_first_node()], "missing": [1000]}[nodes]
    wanted = oracle.policy(named) if nodes == "first" and oracle.can_bind_memory() else None
    found = shared(draw.output((1,), torch.int64))

    def body() -> None:
        before = _policy()
        library.init_cpu_memory_env(named)
        found.fill_(_policy() == (wanted or before))

    def run() -> dict[str, torch.Tensor]:
        run_ranks(library, [body])
        return {f"is {wanted or 'unchanged'}": found}

    return Call(run, lambda: {f"is {wanted or 'unchanged'}": Exact(torch.tensor([1]))})


def _policy() -> str:
    """Return where this thread's memory comes from, in the words of the kernel; empty if it does not say."""
    place = Path("/proc/thread-self/numa_maps")
    return place.read_text(encoding="ascii", errors="replace").split()[1] if place.exists() else ""


def _first_node() -> int:
    """Return the first of the nodes that this process may have memory from."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("Mems_allowed_list:")[2].split()[0].partition(",")[0].partition("-")[0])


@cases("cpu_has_amx_fp8")
def cpu_has_amx_fp8(library: Any, draw: Draw) -> Call:  # noqa: ARG001
    """What the processor says."""
    return Call(
        lambda: {"answer": torch.tensor(library.cpu_has_amx_fp8())},
        lambda: {"answer": Exact(torch.tensor(oracle.has_amx_fp8()))},
    )


for _name in ("static_scaled_fp8_quant", "dynamic_scaled_fp8_quant", "dynamic_per_token_scaled_fp8_quant"):

    def _placeholder(library: Any, draw: Draw, *, _name: str = _name) -> Call:  # noqa: ARG001
        """An operator that takes nothing: it is there to be imported, and says that it is not implemented."""
        return refused(getattr(library, _name))

    _placeholder.__name__ = _name
    cases(_name, lacks=["result"])(_placeholder)
