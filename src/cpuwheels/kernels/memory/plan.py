"""How many compilations of a target run at once, and how their memory cap is enforced."""

from __future__ import annotations

import os
from operator import itemgetter
from typing import TYPE_CHECKING

from cpuwheels.kernels.memory.admission import CapPlan
from cpuwheels.kernels.memory.costs import read_costs
from cpuwheels.kernels.memory.limits import WorstFile, available_memory, choose_cap, job_limits, plan_jobs, usable_cpus
from cpuwheels.kernels.memory.memgate import GateFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.kernels.memory.limits import JobPlan


MEASURED = "measured"
SHARED = "tables"
"""Folder below it with the tables that a shared store has."""


def plan(root: Path, target: Target, options: BuildOptions) -> JobPlan:
    """Return how many compilations may run at once, and the memory for them.

    Args:
        root: The project's folder, with the costs measured for the target.
        target: What is built.
        options: What the user chose.

    Raises:
        MemoryCapError: The cap is not a size, or below what the largest file needs.
        UsageError: ``--jobs`` or ``MAX_JOBS`` is not a whole number above zero.
    """
    cap = choose_cap(options.memory, available_memory())
    costs = read_costs(_seed(root, target, options))
    output, peak = max(((name, cost.bytes) for name, cost in costs.items()), key=itemgetter(1), default=("", 0))
    worst = (
        WorstFile(output, peak) if output else WorstFile("by worst_peak in matrix.yaml", _worst_peak(target, options))
    )
    return plan_jobs(cap, worst, usable_cpus().count, job_limits(os.environ, options.jobs))


def memory_cap(context: BuildContext, jobs: JobPlan, memgate: Path) -> Callable[[Path], CapPlan]:
    """Return how a kernel build with a gate in some folder is kept below its cap."""
    target, options = context.target, context.options
    name = _costs_name(target, options)

    def plan_for(folder: Path) -> CapPlan:
        context.store.replenish(MEASURED, SHARED)
        own = context.store.folders(MEASURED)
        return CapPlan(
            jobs=jobs,
            gate=GateFolder(folder, memgate),
            seed=_seed(context.root, target, options),
            learned=own[0] / name,
            worst_peak=_worst_peak(target, options),
            released=own[-1] / name,
            shared=tuple(place / SHARED / name for place in reversed(own)),
        )

    return plan_for


def _seed(root: Path, target: Target, options: BuildOptions) -> Path:
    return root / "measured" / _costs_name(target, options)


def _costs_name(target: Target, options: BuildOptions) -> str:
    kind = "-debug" if options.debug_symbols else f"-{options.sanitize}" if options.sanitize else ""
    return f"{target.id}{kind}.tsv"


def _worst_peak(target: Target, options: BuildOptions) -> int:
    # Instrumented code takes more memory than plain code, and less than with all that a debugger needs.
    return target.peak(debug_symbols=options.debug_symbols or options.sanitize is not None)
