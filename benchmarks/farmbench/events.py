"""The simulated farm: machines that do one job at a time; jobs begin where they fit, in the order of the farm.

The jobs, what they need, what each machine offers and which goes first are the real farm's (`cpuwheels.farm`); only
time is made up. Where the real one differs: dask.distributed gives each worker jobs ahead and moves them when another
one is idle, while here a job waits in one place until a machine is free.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from cpuwheels.farm.machine import require_machine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cpuwheels.farm.job import Job, Needs
    from cpuwheels.farm.machine import Machine


@dataclass(frozen=True)
class Released:
    """A job and when it is known.

    Attributes:
        job: The job.
        at: Seconds; it does not begin before.
    """

    job: Job
    at: float = 0.0


@dataclass(frozen=True)
class Taken:
    """What a job takes on a machine.

    Attributes:
        seconds: How long the machine is busy with it.
        carried: Bytes that come from other machines for it.
        home: Bytes that go to the one that asked.
        leaves: What the machine has from then on.
    """

    seconds: float
    carried: int = 0
    home: int = 0
    leaves: frozenset[str] = frozenset()


class Cost(Protocol):
    """Tells what a job takes."""

    def __call__(self, job: Job, has: Collection[str], /) -> Taken:
        """Return what a job takes on a machine.

        Args:
            job: The job.
            has: What earlier jobs left there.
        """


@dataclass(frozen=True)
class Run:
    """One job that was done.

    Attributes:
        job: The job.
        machine: Number of the machine.
        began: Seconds.
        taken: What it took.
    """

    job: Job
    machine: int
    began: float
    taken: Taken

    @property
    def ended(self) -> float:
        """When it ended, in seconds."""
        return self.began + self.taken.seconds


@dataclass
class _Farm:
    """The state of a farm at one moment."""

    machines: Sequence[Machine]
    cost: Cost
    done: set[str]
    free: set[int] = field(default_factory=set)
    has: list[set[str]] = field(default_factory=list)
    able: dict[str, frozenset[int]] = field(default_factory=dict)
    ready: dict[frozenset[int], list[tuple[float, int, Job]]] = field(default_factory=dict)
    missing: dict[str, set[str]] = field(default_factory=dict)
    waiting_for: dict[str, list[tuple[int, Job]]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def submit(self, number: int, job: Job) -> None:
        """Take a job in: it is ready once all before it are done."""
        missing = set(job.after) - self.done
        self.missing[job.key] = missing
        for key in missing:
            self.waiting_for.setdefault(key, []).append((number, job))
        if not missing:
            self._make_ready(number, job)

    def end(self, run: Run) -> None:
        """Note that a job has ended: its machine is free, and others may be ready."""
        self.done.add(run.job.key)
        self.free.add(run.machine)
        self.has[run.machine] |= run.taken.leaves
        for number, job in self.waiting_for.pop(run.job.key, ()):
            self.missing[job.key].discard(run.job.key)
            if not self.missing[job.key]:
                self._make_ready(number, job)

    def begin(self, now: float) -> list[Run]:
        """Begin what can begin: the highest priority first, on the free machine that needs least time for it."""
        begun = []
        while heads := [
            (queue[0][:2], able) for able, queue in self.ready.items() if queue and not self.free.isdisjoint(able)
        ]:
            _, able = min(heads, key=lambda head: head[0])
            *_, job = heapq.heappop(self.ready[able])
            offers = [(self.cost(job, self.has[at]), at) for at in sorted(self.free & able)]
            taken, at = min(offers, key=lambda offer: offer[0].seconds)
            self.free.remove(at)
            begun.append(Run(job, at, now, taken))
        self.runs += begun
        return begun

    def _make_ready(self, number: int, job: Job) -> None:
        heapq.heappush(self.ready.setdefault(self.able[job.key], []), (-job.priority, number, job))


def run_farm(
    released: Iterable[Released], machines: Sequence[Machine], cost: Cost, stored: Collection[str] = ()
) -> list[Run]:
    """Return what a farm does with jobs, in the order in which they begin; the same key is done once.

    Args:
        released: The jobs; those that one uses the results of are stored, or are among them.
        machines: Each does one job at a time.
        cost: What a job takes on a machine.
        stored: Keys of what was done before.

    Raises:
        FarmError: No machine can do one of them.
        ValueError: One of them comes after a job that is neither stored nor there.
    """
    jobs: dict[str, Released] = {}
    for one in released:
        if one.job.key not in stored:
            jobs.setdefault(one.job.key, one)
    farm = _Farm(machines, cost, set(stored), set(range(len(machines))), [set() for _ in machines])
    farm.able = able_machines((one.job for one in jobs.values()), machines)
    for one in jobs.values():
        if lost := [key for key in one.job.after if key not in jobs and key not in farm.done]:
            raise ValueError(f"{one.job} comes after {', '.join(lost)}, which nobody does")

    events: list[tuple[float, int, Released | Run]] = []
    for number, one in enumerate(jobs.values()):
        events.append((one.at, number, one))
    heapq.heapify(events)
    count = len(events)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, number, event = heapq.heappop(events)
            if isinstance(event, Run):
                farm.end(event)
            else:
                farm.submit(number, event.job)
        for run in farm.begin(now):
            heapq.heappush(events, (run.ended, count, run))
            count += 1
    return farm.runs


def able_machines(jobs: Iterable[Job], machines: Sequence[Machine]) -> dict[str, frozenset[int]]:
    """Return the numbers of the machines that can do each job, by its key.

    Raises:
        FarmError: No machine can do one of them.
    """
    offers = {machine.name: machine.resources() for machine in machines}
    places = {machine.name: number for number, machine in enumerate(machines)}
    by_needs: dict[Needs, frozenset[int]] = {}
    found: dict[str, frozenset[int]] = {}
    for job in jobs:
        if job.needs not in by_needs:
            by_needs[job.needs] = frozenset(places[name] for name in require_machine(job.needs, str(job), offers))
        found[job.key] = by_needs[job.needs]
    return found
