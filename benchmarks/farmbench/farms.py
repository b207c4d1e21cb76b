"""Simulated farms of some machines: a week of commits as they come, and the same commits given at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Load:
    """The jobs of a week, which are the same for farms of any size.

    Attributes:
        week: The commits.
        setting: The targets, and what is done with their wheels.
        released: Jobs as the commits come.
        stored: Keys of those that were done before: the kernels that the commit before the week has.
    """

    week: Week
    setting: Setting
    released: tuple[Released, ...]
    stored: frozenset[str]

    @cached_property
    def batch(self) -> tuple[Job, ...]:
        """The graph of all commits at once, as one command makes it, for a farm with empty stores."""
        wanted = wanted_of(self.week, self.setting)
        return self.setting.possible(make_graph(wanted, self.setting.order, self.setting.costs.estimate()))


def wanted_of(week: Week, setting: Setting) -> list[Wanted]:
    """Return the wheels of a week."""
    return [Wanted(target, one.commit, one.kernels) for one in week.commits for target in setting.targets]


def load_of(week: Week, setting: Setting) -> Load:
    """Return the jobs of a week.

    A commit is given to the farm when it comes: a job for its kernels, which every later commit of the same class
    names by the same key, and one that packs. Nothing is known of later commits.

    Args:
        week: The commits.
        setting: The targets, and what is done with their wheels.
    """
    order, estimate = setting.order, setting.costs.estimate()
    released: list[Released] = []
    stored: set[str] = set()
    for target in setting.targets:
        if week.before:
            kernels, _ = wheel_after_kernels(Wanted(target, "before", week.before), order, estimate)
            stored.add(kernels.key)
    came = {one.commit: one.at for one in week.commits}
    for wanted in wanted_of(week, setting):
        kernels, wheel = wheel_after_kernels(wanted, order, estimate)
        jobs: tuple[Job, ...] = (kernels, wheel)
        if setting.level is not None:
            tests = [job for job in make_graph([wanted], order, estimate) if job.key != wheel.key]
            jobs = setting.possible(longest_first([*jobs, *tests], order.priority))
        released += [Released(job, came[wanted.source]) for job in jobs]
    return Load(week, setting, tuple(released), frozenset(stored))


def simulate_farm(load: Load, count: int) -> Farm:
    """Return what a farm of so many machines makes of a week.

    Raises:
        FarmError: No machine can do one of the jobs.
    """
    setting = load.setting
    runs = run_farm(load.released, setting.machines(count), setting.costs, load.stored)
    delays = _delays(runs, {one.commit: one.at for one in load.week.commits})
    return Farm(machines=count, delays=_summary(delays, setting), used=_used(runs, load.week, count))


def simulate_batch(load: Load, count: int, costs: Costs) -> Batch:
    """Return what a farm of so many machines with empty stores makes of all commits at once.

    Raises:
        FarmError: No machine can do one of the jobs.
    """
    machines, jobs = load.setting.machines(count), load.batch
    runs = run_farm([Released(job) for job in jobs], machines, costs)
    bound = lower_bound(jobs, machines, costs.least(jobs))
    makespan = max(run.ended for run in runs)
    return Batch(jobs=len(jobs), makespan=makespan, bound=bound.seconds, bound_of=bound.of)


def whole_farm(load: Load, count: int) -> Farm:
    """Return what a farm of so many machines makes of a week and of a batch.

    Raises:
        FarmError: No machine can do one of the jobs.
    """
    return simulate_farm(load, count).model_copy(update={"batch": simulate_batch(load, count, load.setting.costs)})


def smallest_farm(loads: Sequence[Load], most: int) -> Farm | None:
    """Return the smallest farm that makes every wheel of each week in time, with what it makes of the first one.

    Args:
        loads: At least one.
        most: Machines.

    Returns:
        None if none of at most so many machines is enough.

    Raises:
        FarmError: No machine can do one of the jobs.
    """
    for count in range(1, most + 1):
        farms = (simulate_farm(load, count) for load in loads)
        first = next(farms)
        if all(farm.delays.longest <= loads[0].setting.within for farm in (first, *farms)):
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
