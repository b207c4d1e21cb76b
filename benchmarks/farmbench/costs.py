"""What jobs of a simulated farm take, and where each number comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulation import jobs_of, simulate

from cpuwheels.core.errors import UsageError
from cpuwheels.farm.estimate import GUESSES
from cpuwheels.farm.graph import Estimate
from cpuwheels.kernels.memory.costs import read_costs
from cpuwheels.kernels.memory.plan import MEASURED
from farmbench.events import Taken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.farm.job import Job, JobKind

_MEGABIT = 1_000_000 / 8


@dataclass(frozen=True)
class Number:
    """One number that the simulation is fed with.

    Attributes:
        value: The number.
        source: Where it comes from, for people.
    """

    value: float
    source: str


_GIVEN = "given"

DEFAULTS: Mapping[str, Number] = {
    "wheel": Number(
        9.9,
        "seconds: a Python-only change up to the wheel, 2 CPUs, 2026-11-26 (docs/performance.md, The sandbox); "
        "not divided by CPUs",
    ),
    "audit": Number(
        32.6,
        "seconds with which kernels are audited once they are compiled: stage `audit` of `cpuwheels build x86 --source "
        "0.33.0 --kernels-only` with kernels in the store, 2 CPUs, 2026-11-27; not divided by CPUs",
    ),
    "parity": Number(50.0, "seconds of level smoke: x86, 2 CPUs, 2026-11-22 (docs/performance.md, Kernels)"),
    "parity-emulated": Number(
        GUESSES["parity"], "seconds on an emulated CPU: cpuwheels.farm.estimate, a guess; never measured"
    ),
    "overhead": Number(0.5, "seconds of the engine for each job: the most that is allowed; see docs/farm.md"),
    "network": Number(1000.0, "megabits a second between two machines: assumed"),
    "wheel-bytes": Number(
        19_950_578, "a wheel of x86 with its reports, as one archive: 0.33.0, 2026-11-27; taken for every target"
    ),
    "kernels-bytes": Number(
        15_034_633, "kernels of x86 and their audit, as they are carried: 0.33.0, 2026-11-27; taken for every target"
    ),
}


@dataclass(frozen=True)
class Costs:
    """What jobs take.

    Attributes:
        compile: Seconds in which a machine compiles all kernels of a target.
        memory: Bytes of a target's largest compilation.
        native: Targets that are tested natively; the others' tests run on an emulated CPU.
        numbers: The rest, named as in `DEFAULTS`.
    """

    compile: Mapping[str, float]
    memory: Mapping[str, int]
    native: frozenset[str] = frozenset()
    numbers: Mapping[str, Number] = field(default_factory=lambda: DEFAULTS)

    def value(self, name: str) -> float:
        """Return one of the numbers."""
        return self.numbers[name].value

    def estimate(self) -> Estimate:
        """Return what the farm expects of jobs: what they take, as it does once it has done some."""

        def seconds(kind: JobKind, target: str) -> float:
            if kind == "kernels":
                return self.compile[target]
            return self._test(target) if kind == "parity" else self.value(kind)

        return Estimate(seconds, lambda target: self.memory[target])

    def __call__(self, job: Job, has: Collection[str]) -> Taken:
        """Return what a job takes on a machine.

        Args:
            job: The job.
            has: What earlier jobs left there.
        """
        kernels = job.after[0] if job.after else job.key
        seconds, carried, home = self.value("overhead"), 0, 0
        leaves: set[str] = set()
        if job.kind == "kernels":
            seconds += self.compile[job.target] + self.value("audit")
            leaves = {f"kernels {job.key}"}
        elif job.kind == "parity":
            seconds += self._test(job.target)
            home = self._bytes("wheel")  # the folder comes home again, with the report
            if f"wheel {kernels}" not in has:
                carried = self._bytes("wheel")
        else:
            leaves = {f"kernels {kernels}", f"wheel {job.key}"}
            seconds += self.value("wheel")
            home = self._bytes("wheel")
            if not job.after:
                seconds += self.compile[job.target] + self.value("audit")
            elif f"kernels {kernels}" not in has:
                carried = self._bytes("kernels")
        seconds += (carried + home) / (self.value("network") * _MEGABIT)
        return Taken(seconds, carried, home, frozenset(leaves))

    def least(self, jobs: Iterable[Job]) -> dict[str, float]:
        """Return what each job takes at least, by its key: nothing is carried.

        Args:
            jobs: The jobs.
        """
        return {
            job.key: self(job, {f"{what} {before}" for what in ("kernels", "wheel") for before in job.after}).seconds
            for job in jobs
        }

    def _test(self, target: str) -> float:
        return self.value("parity" if target in self.native else "parity-emulated")

    def _bytes(self, what: str) -> int:
        return round(self.value(f"{what}-bytes"))


def compile_seconds(root: Path, targets: Sequence[str], memgate: Path, cpus: int, cap: int) -> Costs:
    """Return what compiling takes: memgate's own policy on the measured files, with this many CPUs and this memory.

    So a machine with many CPUs waits for the longest file, and one with little memory for the largest ones. All else is
    as in `DEFAULTS`.

    Args:
        root: The project's folder.
        targets: Target ids.
        memgate: The launcher.
        cpus: CPUs of a machine.
        cap: Bytes for all compilations of a machine.

    Raises:
        UsageError: A target has no table of measured files, or the cap does not hold its largest one.
    """
    seconds, memory = {}, {}
    for target in targets:
        table = root / MEASURED / f"{target}.tsv"
        costs = read_costs(table)
        if not costs:
            raise UsageError(
                f"nothing was measured of {target}",
                where=table,
                next_step="build it once and copy the table from the stores (docs/memory-cap.md), or leave it out",
            )
        memory[target] = max(cost.bytes for cost in costs.values())
        if memory[target] > cap:
            raise UsageError(
                f"the largest compilation of {target} needs {memory[target]:,} bytes and a machine has {cap:,}",
                where="--memory",
                next_step="give the machines more memory",
            )
        seconds[target] = simulate(memgate, jobs_of(costs), cpus, cap)
    return Costs(seconds, memory)


def table_sources(root: Path, targets: Sequence[str]) -> dict[str, str]:
    """Return what the table of each target says of itself: what was measured, when and where."""
    found = {}
    for target in targets:
        lines = (root / MEASURED / f"{target}.tsv").read_text(encoding="utf-8").splitlines()
        about = [line.lstrip("# ") for line in lines if line.startswith("#")]
        found[target] = " ".join(about[:2])
    return found


def with_numbers(given: Mapping[str, float]) -> dict[str, Number]:
    """Return the numbers with those that a user gives in place of the defaults."""
    return {**DEFAULTS, **{name: Number(value, _GIVEN) for name, value in given.items()}}
