"""How much memory a build may take, and how many jobs fit into it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from cpuwheels.core.errors import MemoryCapError, UsageError
from cpuwheels.core.units import format_size, parse_size
from cpuwheels.kernels.memory.cgroups import PROC, cpu_quotas, memory_groups, whole_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class MemoryLimit:
    """The memory this process and its children may use together.

    Attributes:
        bytes: The limit.
        where: What sets it, for people.
        available: Bytes of it that are free now.
    """

    bytes: int
    where: str
    available: int


@dataclass(frozen=True)
class CpuLimit:
    """The CPUs this process and its children may use together.

    Attributes:
        count: Whole CPUs, at least 1.
        where: What sets it, for people.
    """

    count: int
    where: str


@dataclass(frozen=True)
class WorstFile:
    """The compilation that needs most memory.

    Attributes:
        name: For people.
        bytes: Its peak.
    """

    name: str
    bytes: int


@dataclass(frozen=True)
class JobPlan:
    """What the compilations of a build may take together.

    Attributes:
        jobs: How many run at the same time; at least 1. Memory may allow fewer at times.
        reason: Which of the bounds decided, for people.
        cap: Bytes.
        where: What sets the cap, for people.
    """

    jobs: int
    reason: str
    cap: int
    where: str


def available_memory(proc: Path = PROC, physical: int | None = None) -> MemoryLimit:
    """Return the smallest of the machine's RAM and every cgroup limit from this process upwards.

    Args:
        proc: The proc file system.
        physical: Bytes of RAM; asked of the system by default.
    """
    machine = psutil.virtual_memory()
    limits = [(machine.total if physical is None else physical, "physical memory")]
    free = [machine.available if physical is None else physical]
    for group in memory_groups(proc):
        limits.append((group.limit, str(group.file)))
        free.append(max(0, group.limit - group.used))
    smallest = min(limits, key=lambda limit: limit[0])
    return MemoryLimit(smallest[0], smallest[1], min(free))


def usable_cpus(proc: Path = PROC, affinity: int | None = None) -> CpuLimit:
    """Return the smallest of this process's CPU affinity and every cgroup quota from it upwards.

    Args:
        proc: The proc file system.
        affinity: CPUs it may be scheduled on; asked of the system by default.
    """
    limits = [(affinity or _affinity(), "CPUs of this machine that the process may use")]
    limits += [(whole_cpus(quota.cpus), str(quota.file)) for quota in cpu_quotas(proc)]
    return CpuLimit(*min(limits, key=lambda limit: limit[0]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_cap(option: str | None, limit: MemoryLimit) -> MemoryLimit:
    """Return the cap for a build: ``--memory`` if given, but never more than there is.

    Args:
        option: A size such as ``8G``, or None.
        limit: What `available_memory` found.

    Raises:
        UsageError: The option is not a size.
    """
    if option is None:
        return limit
    try:
        wanted = parse_size(option)
    except ValueError as error:
        raise UsageError(
            f"--memory: {error}", where="command line", next_step="write a size such as --memory 8G"
        ) from error
    if wanted > limit.bytes:
        where = f"{limit.where} (--memory {option} is more than there is)"
        return MemoryLimit(limit.bytes, where, limit.available)
    return MemoryLimit(wanted, f"--memory {option}", min(wanted, limit.available))


def job_limits(environ: Mapping[str, str], jobs: str | int | None) -> dict[str, int]:
    """Return the upper bounds on jobs that the user set, by the name of the setting.

    Args:
        environ: For ``MAX_JOBS``; an empty value counts as not set.
        jobs: The value of ``--jobs``, or None.

    Raises:
        UsageError: One of them is not a whole number above zero.
    """
    given = {"MAX_JOBS": environ.get("MAX_JOBS", "").strip() or None, "--jobs": jobs}
    return {name: _whole(name, value) for name, value in given.items() if value is not None}


def _whole(name: str, value: str | int) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise UsageError(
            f"{name} is {str(value)!r}, not a whole number of at least 1",
            where="environment" if name.isupper() else "command line",
            next_step=f"give {name} a number such as 4, or leave it out: memory and CPUs set it then",
        )
    return int(text)


def plan_jobs(cap: MemoryLimit, worst: WorstFile, cpus: int, limits: Mapping[str, int]) -> JobPlan:
    """Return how many compilations may run at once, ``min(cpus, every limit)``, and the memory for them.

    Memory does not lower the number: which files run side by side is decided file by file (memgate).

    Args:
        cap: Bytes all jobs may use together, and what set it.
        worst: The file that needs most.
        cpus: CPUs that may be used.
        limits: Upper bounds by the setting's name; see `job_limits`.

    Raises:
        MemoryCapError: Not even one job fits.
    """
    if cap.bytes < worst.bytes:
        raise MemoryCapError(
            f"a memory cap of {format_size(cap.bytes)} is below the {format_size(worst.bytes)} that the largest "
            f"single compilation needs ({worst.name})",
            where=cap.where,
            next_step=f"allow at least {format_size(worst.bytes)}: a larger --memory, a larger container, "
            "or a machine with more memory",
        )
    bounds = [(cpus, "CPU" if cpus == 1 else "CPUs")]
    bounds += [(_whole(name, value), name) for name, value in limits.items()]
    jobs, reason = min(bounds, key=lambda bound: bound[0])
    return JobPlan(jobs, reason, cap.bytes, cap.where)
