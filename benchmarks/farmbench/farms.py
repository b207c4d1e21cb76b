"""Simulated farms of some machines: a week of commits as they come, and the same commits given at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.farm.graph import Order, Wanted, longest_first, make_graph, wheel_after_kernels
from cpuwheels.farm.machine import Machine
from farmbench.bound import lower_bound
from farmbench.events import Released, run_farm
from farmbench.results import Batch, Delays, Farm, Used

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cpuwheels.farm.job import Job
    from farmbench.arrivals import Week
    from farmbench.costs import Costs
    from farmbench.events import Run

_HOUR = 3600.0


@dataclass(frozen=True)
class Setting:
    """What is the same for farms of any size.

    Attributes:
        targets: Target ids.
        costs: What jobs take.
        cpus: CPUs of a machine.
        memory: Bytes of a machine for a build.
        can: What a machine can do, as the farm names it, and the part of the machines that can: 1 for all.
        level: Level of parity; None for no tests.
        within: Seconds in which a wheel has to be there.
    """

    targets: tuple[str, ...]
    costs: Costs
    cpus: int
    memory: int
    can: Mapping[str, float]
    level: str | None = None
    within: float = 1800.0

    @property
    def order(self) -> Order:
        """What is done with each wheel; tests of targets that no machine can test are left out."""
        return Order(identity="simulation", level=self.level)

    def machines(self, count: int) -> list[Machine]:
        """Return so many machines. Of what not all of them can do, the first ones can, and at least one."""
        return [
            Machine(
                name=f"machine-{number + 1}",
                cpus=self.cpus,
                memory=self.memory,
                can=frozenset(what for what, part in self.can.items() if number < max(1, math.ceil(part * count))),
                features=frozenset(),
            )
            for number in range(count)
        ]

    def possible(self, jobs: Sequence[Job]) -> tuple[Job, ...]:
        """Return the jobs without the tests that no machine can do, as a user would leave them out."""
        return tuple(job for job in jobs if job.kind in {"kernels", "wheel"} or job.needs.can in self.can)


def jobs_as_they_come(week: Week, setting: Setting) -> tuple[list[Released], set[str]]:
    """Return the jobs of a week, and which of them are stored: the kernels that the commit before it has.

    A commit is given to the farm when it comes: a job for its kernels, which every later commit of the same class
    names by the same key, and one that packs. Nothing is known of later commits.

    Args:
        week: The commits.
        setting: The targets, and what is done with their wheels.
    """
    order, estimate = setting.order, setting.costs.estimate()
    released, stored = [], set()
    for target in setting.targets:
        if week.before:
            kernels, _ = wheel_after_kernels(Wanted(target, "before", week.before), order, estimate)
            stored.add(kernels.key)
    for arrival in week.commits:
        for target in setting.targets:
            wanted = Wanted(target, arrival.commit, arrival.kernels)
            kernels, wheel = wheel_after_kernels(wanted, order, estimate)
            tests = [job for job in make_graph([wanted], order, estimate) if job.key != wheel.key]
            jobs = longest_first([kernels, wheel, *tests], order.priority)
            released += [Released(job, arrival.at) for job in setting.possible(jobs)]
    return released, stored


def jobs_at_once(week: Week, setting: Setting) -> tuple[Job, ...]:
    """Return the graph of all commits of a week, as one command would make it."""
    wanted = [Wanted(target, one.commit, one.kernels) for one in week.commits for target in setting.targets]
    return setting.possible(make_graph(wanted, setting.order, setting.costs.estimate()))


def simulate_farm(week: Week, setting: Setting, count: int) -> Farm:
    """Return what a farm of so many machines makes of a week.

    Args:
        week: The commits.
        setting: What is the same for farms of any size.
        count: Machines.

    Raises:
        FarmError: No machine can do one of the jobs.
    """
    machines = setting.machines(count)
    released, stored = jobs_as_they_come(week, setting)
    runs = run_farm(released, machines, setting.costs, stored)
    delays = _delays(runs, {one.commit: one.at for one in week.commits})
    return Farm(machines=count, delays=_summary(delays, setting), used=_used(runs, week, count))


def simulate_batch(week: Week, setting: Setting, count: int) -> Batch:
    """Return what a farm of so many machines with empty stores makes of all commits at once.

    Raises:
        FarmError: No machine can do one of the jobs.
    """
    machines, jobs = setting.machines(count), jobs_at_once(week, setting)
    runs = run_farm([Released(job) for job in jobs], machines, setting.costs)
    bound = lower_bound(jobs, machines, setting.costs.least(jobs))
    makespan = max(run.ended for run in runs)
    return Batch(jobs=len(jobs), makespan=makespan, bound=bound.seconds, bound_of=bound.of)


def whole_farm(week: Week, setting: Setting, count: int) -> Farm:
    """Return what a farm of so many machines makes of a week and of a batch, as it is and if audits were carried.

    Raises:
        FarmError: No machine can do one of the jobs.
    """
    once = replace(setting, costs=replace(setting.costs, audits_once=True))
    batches = {"batch": simulate_batch(week, setting, count), "audits_once": simulate_batch(week, once, count)}
    return simulate_farm(week, setting, count).model_copy(update=batches)


def smallest_farm(weeks: Sequence[Week], setting: Setting, most: int) -> Farm | None:
    """Return the smallest farm that makes every wheel of each week in time, with what it makes of the first one.

    Args:
        weeks: At least one.
        setting: What is the same for farms of any size.
        most: Machines.

    Returns:
        None if none of at most so many machines is enough.

    Raises:
        FarmError: No machine can do one of the jobs.
    """
    for count in range(1, most + 1):
        farms = (simulate_farm(week, setting, count) for week in weeks)
        first = next(farms)
        if all(farm.delays.longest <= setting.within for farm in (first, *farms)):
            return first
    return None


def _delays(runs: Collection[Run], came: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """Return how long after its commit each wheel was there, with its tests if there are any."""
    found: dict[tuple[str, str], float] = {}
    for run in runs:
        if run.job.kind != "kernels":
            name = (run.job.source, run.job.target)
            found[name] = max(found.get(name, 0.0), run.ended - came[run.job.source])
    return found


def _summary(delays: Mapping[tuple[str, str], float], setting: Setting) -> Delays:
    ordered = sorted(delays.values())
    late = {commit for (commit, _), delay in delays.items() if delay > setting.within}
    commits = {commit for commit, _ in delays}
    return Delays(
        wheels=len(ordered),
        within=sum(delay <= setting.within for delay in ordered) / len(ordered),
        commits_within=1 - len(late) / len(commits),
        median=quantile(ordered, 0.5),
        most=quantile(ordered, 0.95),
        longest=ordered[-1],
    )


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the smallest value that this part of the values is not above (nearest rank).

    Args:
        ordered: The values, ascending.
        part: Above 0, at most 1.
    """
    return ordered[math.ceil(part * len(ordered)) - 1]


def _used(runs: Collection[Run], week: Week, count: int) -> Used:
    busy = sum(run.taken.seconds for run in runs)
    span = max(week.days * 24 * _HOUR, *(run.ended for run in runs))
    wheels = sum(run.job.kind == "wheel" for run in runs)
    return Used(
        jobs=len(runs),
        compiled=sum(run.job.kind == "kernels" for run in runs),
        hours=busy / _HOUR,
        utilisation=busy / (span * count),
        carried=sum(run.taken.carried for run in runs),
        home=sum(run.taken.home for run in runs),
        minutes_per_wheel=busy / 60 / wheels,
    )
