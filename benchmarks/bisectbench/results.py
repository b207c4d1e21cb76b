"""What the benchmark of bisections found, as it is written to JSON, and as a table."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Literal

from buildbench.results import Machine  # noqa: TC002  (pydantic reads the annotations)
from pydantic import Field

from bisectbench.history import Fault  # noqa: TC001
from cpuwheels.core.errors import UsageError
from cpuwheels.core.models import Strict
from cpuwheels.core.progress import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

OURS, THEIRS = "ours", "git bisect run"

TARGET, FIRST_TARGET = 0.08, 0.35
"""Largest part of the wall time of ``git bisect run`` that a bisection may take: with warm caches, from empty ones."""


class Step(Strict):
    """One commit that was tested."""

    commit: str
    verdict: str
    seconds: float
    """Wall time."""
    compiled: bool
    """Whether compilers were started for it."""
    parts: dict[str, float] = Field(default_factory=dict)
    """Seconds of each part, where that is known."""


class Run(Strict):
    """One bisection. Seconds throughout."""

    project: str = ""
    """Our own version, with the commit of a checkout."""
    side: str
    fault: Fault
    wall: float
    """From the command's start to its end."""
    first_bad: str
    steps: tuple[Step, ...]


class Results(Strict):
    """Everything of one run of the benchmark."""

    machine: Machine
    began: str
    """UTC."""
    releases: tuple[str, ...]
    commits: int
    kernel_changes: int
    caches: Literal["empty", "of an earlier run"] = "empty"
    """At the beginning."""
    first: tuple[Run, ...] = ()
    """With the caches as they were."""
    warm: tuple[Run, ...] = ()
    """Again, with what the first ones left in the caches."""

    def with_run(self, run: Run, *, warm: bool) -> Results:
        """Return the results with one more run."""
        return self.model_copy(update={"warm": (*self.warm, run)} if warm else {"first": (*self.first, run)})

    def has(self, fault: Fault, side: str, *, warm: bool) -> bool:
        """Return whether there is such a run."""
        return any((run.fault, run.side) == (fault, side) for run in (self.warm if warm else self.first))

    def resumed(self, before: Results, path: Path) -> Results:
        """Return earlier results, if they are of the same repository on the same machine.

        Args:
            before: The earlier results.
            path: Where they are.

        Raises:
            UsageError: They are not.
        """
        if before.model_copy(update={"began": self.began, "caches": self.caches, "first": (), "warm": ()}) != self:
            raise UsageError(
                "the results are of another repository or another machine",
                where=path,
                next_step="leave out --resume to measure everything anew",
            )
        return before

    def ratios(self, *, warm: bool) -> dict[str, float]:
        """Return our wall time as a share of theirs, for each fault that both sides looked for."""
        walls = {(run.fault, run.side): run.wall for run in (self.warm if warm else self.first)}
        faults = sorted(fault for fault, side in walls if side == OURS and (fault, THEIRS) in walls)
        return {fault: walls[fault, OURS] / walls[fault, THEIRS] for fault in faults}


def as_text(results: Results) -> str:
    """Return the results for people."""
    machine = results.machine
    small = results.commits - len(results.releases)
    lines = [
        f"{machine.processor}, {machine.cpus} CPUs, {machine.system}; {results.began}",
        f"vLLM {', '.join(results.releases)}, {small} commits after them; {results.kernel_changes} change kernels",
    ]
    for warm, title in ((False, f"caches: {results.caches}"), (True, "again, with what that left in the caches")):
        runs = results.warm if warm else results.first
        if runs:
            lines += ["", title]
        lines += [_line(run) for run in runs]
        lines += [f"  {fault}: ratio {ratio:.3f}" for fault, ratio in results.ratios(warm=warm).items()]
    if warm_ratios := results.ratios(warm=True):
        worst = max(warm_ratios.values())
        lines += [
            "",
            f"target: at most {TARGET} with warm caches: {'met' if worst <= TARGET else 'missed'} ({worst:.3f})",
        ]
    return "\n".join(lines)


def _line(run: Run) -> str:
    seconds = [step.seconds for step in run.steps]
    compiled = sum(step.compiled for step in run.steps)
    return (
        f"  {run.fault} fault, {run.side}: {clock(run.wall)} for {len(seconds)} commits ({compiled} compiled), "
        f"median {clock(statistics.median(seconds))}, longest {clock(max(seconds))}"
    )


def wrong(results: Results, first_bad: Mapping[Fault, str]) -> Sequence[Run]:
    """Return the runs that found another commit than the one with the fault."""
    return [run for run in (*results.first, *results.warm) if run.first_bad != first_bad[run.fault]]
