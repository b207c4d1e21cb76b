"""What the simulation found, as it is written to JSON."""

from __future__ import annotations

from cpuwheels.core.models import Strict

LIMIT = 1.15
"""The most that the makespan of a batch may be of its lower bound."""


class Delays(Strict):
    """How long after its commit a wheel was there. Seconds."""

    wheels: int
    within: float
    """Part of the wheels that were there in time."""
    commits_within: float
    """Part of the commits of which every wheel was."""
    median: float
    most: float
    """95 % are not above this."""
    longest: float


class Used(Strict):
    """What the machines did."""

    jobs: int
    compiled: int
    """Sets of kernels."""
    hours: float
    """In which machines were busy, all of them together."""
    utilisation: float
    """The part of all machines' time that this is."""
    carried: int
    """Bytes that went from machine to machine."""
    home: int
    """Bytes that went to where wheels are wanted."""
    minutes_per_wheel: float
    """Of a machine."""


class Batch(Strict):
    """All commits of the week given at once to a farm with empty stores. Seconds."""

    jobs: int
    makespan: float
    bound: float
    bound_of: str
    """All ``work``, or ``later work``, divided by the machines that can do it, or the longest ``chain`` of jobs."""

    @property
    def ratio(self) -> float:
        """Makespan over the bound."""
        return self.makespan / self.bound


class Farm(Strict):
    """A farm of some machines."""

    machines: int
    delays: Delays
    used: Used
    batch: Batch | None = None
    """None where no batch was simulated."""


class Size(Strict):
    """The smallest farm for some load."""

    per_day: float
    """Commits."""
    kernels: float
    """Part of the commits that changes kernels."""
    cpus: int
    memory: int
    weeks: int
    """How many weeks it is enough for."""
    farm: Farm | None
    """With what it makes of the first of them; None if no farm of the sizes looked at is enough."""


class Input(Strict):
    """A number that the simulation was fed with."""

    value: float
    source: str


class Commits(Strict):
    """The commits of the week."""

    name: str
    began: str
    """UTC."""
    days: float
    count: int
    kernel_changes: int
    seed: int | None
    """Of a made week."""


class Results(Strict):
    """Everything of one simulation."""

    when: str
    """UTC."""
    commit: str
    """Of this program; ``+`` if its files were changed since."""
    targets: tuple[str, ...]
    week: Commits
    cpus: int
    """Of a machine."""
    memory: int
    """Bytes of a machine for a build."""
    can: dict[str, float]
    """What machines can do, and the part of them that can."""
    level: str | None
    """Of parity."""
    within: float
    """Seconds in which a wheel has to be there."""
    compile: dict[str, float]
    """Seconds for all kernels of a target on one machine."""
    measured: dict[str, str]
    """What of each target was measured, when and where."""
    inputs: dict[str, Input]
    farms: tuple[Farm, ...]
    smallest: Size
    sizes: tuple[Size, ...] = ()
    price: float | None = None
    """Of a machine for an hour, as given."""
