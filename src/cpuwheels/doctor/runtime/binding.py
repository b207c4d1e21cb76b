"""Which CPUs each worker's threads are bound to, as vLLM does it (vllm/utils/ompmultiprocessing.py)."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from cpuwheels.core.models import Strict
from cpuwheels.doctor.runtime.reading import format_list

if TYPE_CHECKING:
    from cpuwheels.doctor.runtime.machine import Cpu, Machine

_ONE_PER_CORE = ("x86_64", "s390x")
"""Machines on which vLLM takes the last logical CPU of each core, and not all of them."""


class Rank(Strict):
    """A worker."""

    node: int
    """Node, or on IBM Z group, whose CPUs it has."""
    memory: int
    """Memory node that it is bound to."""
    cpus: tuple[int, ...]

    @property
    def list(self) -> str:
        """Its CPUs as Linux writes them."""
        return format_list(self.cpus)


def ranks_of(machine: Machine, workers: int, reserve: int) -> tuple[Rank, ...]:
    """Return what each worker gets.

    Args:
        machine: Where they run.
        workers: How many.
        reserve: Cores kept free, from the last worker on.
    """
    chosen = _chosen(machine, workers)
    if automatic(machine, workers, reserve):
        each, more = divmod(reserve, workers)
        keep = [each + (place >= workers - more) for place in range(workers)]
        chosen = [cpus[: len(cpus) - kept] for cpus, kept in zip(chosen, keep, strict=True)]
    if machine.quota is not None:
        whole = floor(machine.quota)
        most = max(1, (whole - reserve if whole > reserve else whole) // workers)
        chosen = [cpus[:most] for cpus in chosen]
    nodes = [node.id for node in machine.usable_nodes] or [machine.nodes[0].id]
    return tuple(
        Rank(node=place, memory=place if place in nodes else nodes[0], cpus=tuple(cpu.id for cpu in cpus))
        for place, cpus in zip(places(machine)[:workers], chosen, strict=True)
    )


def automatic(machine: Machine, workers: int, reserve: int) -> bool:
    """Return whether vLLM keeps cores free: not if there are no more than those."""
    return sum(map(len, _chosen(machine, workers))) > reserve


def places(machine: Machine) -> list[int]:
    """Return what a worker can be bound to: the memory nodes, or on IBM Z the groups of CPUs."""
    if machine.architecture == "s390x":
        return sorted({cpu.node for cpu in machine.allowed})
    return [node.id for node in machine.usable_nodes] or [0]


def _chosen(machine: Machine, workers: int) -> list[list[Cpu]]:
    """Return for each worker the logical CPUs of its node that get a thread."""
    return [_threads(machine, place) for place in places(machine)[:workers]]


def _threads(machine: Machine, place: int) -> list[Cpu]:
    cpus = sorted((cpu for cpu in machine.allowed if cpu.node == place), key=lambda cpu: cpu.id)
    if machine.architecture not in _ONE_PER_CORE:
        return cpus
    last = {cpu.core: cpu for cpu in cpus}
    return sorted(last.values(), key=lambda cpu: cpu.id)
