"""One build behind the gate: it gets the expected costs, stays below its cap, and corrects the costs afterwards."""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

from cpuwheels.core.errors import MemoryCapError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.units import format_size
from cpuwheels.kernels.memory.cgroup_limit import WATCH, hold
from cpuwheels.kernels.memory.costs import (
    Cost,
    WrongPrediction,
    expected_costs,
    job_class,
    measured_costs,
    read_costs,
    write_costs,
    wrong_predictions,
)
from cpuwheels.kernels.memory.ledger import end_cut_line, ledger_size, read_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.kernels.memory.cgroup_limit import Hold
    from cpuwheels.kernels.memory.ledger import JobRecord
    from cpuwheels.kernels.memory.limits import JobPlan
    from cpuwheels.kernels.memory.memgate import GateFolder

LAUNCHER_BYTES = 256 << 10
"""What a waiting launcher takes: 125 KiB of its own and 90 KiB of the kernel's (docs/memory-cap.md)."""

NINJA_BYTES = 48 << 20
"""Memory of ninja with the largest build graph of the matrix."""

SUPERVISOR_BYTES = 16 << 20
"""Memory of the process that makes supervisors, and of one of them."""

PROBE_BYTES = 256 << 20
"""What a compilation may need by which CMake checks the compiler."""

_MOST_LAUNCHERS = 2000
_OTHER_FILES = 64
"""Open files that ninja needs besides one for each job."""

_UNKNOWN_SECONDS = 15.0
"""A medium length among kernel files; only the order of starting depends on it."""


@dataclass(frozen=True)
class CapPlan:
    """How a build is kept below its cap.

    Attributes:
        jobs: CPUs and the cap.
        gate: Where the launchers meet.
        seed: Table of costs that comes with the project.
        learned: Table of costs in the cache, updated by every build.
        worst_peak: Bytes that a file of unknown cost may need.
        released: The table that releases' builds update, where that is another; its costs count as well.
        shared: Tables that other machines measured.
    """

    jobs: JobPlan
    gate: GateFolder
    seed: Path
    learned: Path
    worst_peak: int
    released: Path | None = None
    shared: tuple[Path, ...] = ()

    def tables(self) -> list[Path]:
        """Return the tables of costs; where several have a file, the last one counts."""
        return [self.seed, *self.shared, *([self.released] if self.released else []), self.learned]


@dataclass(frozen=True)
class MemoryUse:
    """What a build did with its memory.

    Attributes:
        jobs: How many ran at once.
        cap: Bytes all of it was allowed.
        where: What set the cap.
        room: The part of the cap that compilers and linkers could take.
        how: What enforced it.
        peak: The most that compilers and linkers used together, measured every 50 ms.
        wrong: Jobs that needed more than expected.
    """

    jobs: int
    cap: int
    where: str
    room: int
    how: str
    peak: int
    wrong: tuple[WrongPrediction, ...] = ()


@dataclass
class Session:
    """A build behind the gate while it runs.

    Attributes:
        plan: As given.
        held: What enforces the cap.
        room: Bytes for compilers and linkers.
        window: Jobs that ninja starts at once; most of them wait.
        expected: What each file to make is expected to cost.
        links: The cost of each measured link.
        ledger: What memgate writes one line per job to.
        before: Bytes of it that are of earlier builds.
        use: Filled in when the build has ended, however it ended.
    """

    plan: CapPlan
    held: Hold
    room: int
    window: int
    expected: Mapping[str, Cost]
    links: Mapping[str, Cost]
    ledger: Path
    before: int
    use: MemoryUse | None = field(default=None, init=False)

    def command(self, argv: Sequence[str | Path]) -> list[str | Path]:
        """Return a command that runs below the cap."""
        return [*self.held.prefix, *argv]

    def finished(self) -> MemoryUse:
        """Return what the build did with its memory, once it has ended."""
        if self.use is None:
            raise RuntimeError("the build behind this gate is still running")
        return self.use

    def records(self) -> tuple[JobRecord, ...]:
        """Return what memgate recorded of this build's jobs so far."""
        return read_records(self.ledger, self.before)


def open_gate(plan: CapPlan) -> None:
    """Open the gate before it is known what will be built, because CMake also compiles while it configures.

    Raises:
        StoreError: The gate's folder cannot be written.
    """
    plan.gate.write(cpus=plan.jobs.jobs, room=_limit(plan), unknown=Cost(0, PROBE_BYTES), held=WATCH, expected={})


@contextlib.contextmanager
def gate_session(plan: CapPlan, outputs: Sequence[str], ledger: Path) -> Iterator[Session]:
    """Open the gate for a build of some files, and learn from it afterwards.

    Args:
        plan: Cap, CPUs, and where costs are kept.
        outputs: Files to make, relative to the build folder.
        ledger: What memgate writes one line per job to; only lines added meanwhile are reported on.

    Raises:
        MemoryCapError: One file is known to need more than there is room for.
        StoreError: The gate or the table of costs cannot be written.
    """
    known = {output: cost for table in plan.tables() for output, cost in read_costs(table).items()}
    unknown = Cost(_UNKNOWN_SECONDS, plan.worst_peak)
    expected = expected_costs(outputs, known, unknown)
    window = most_launchers(len(outputs))
    limit = _limit(plan)
    room = limit - NINJA_BYTES - window * LAUNCHER_BYTES
    check_room(room, expected, plan.jobs)
    with storage_errors(ledger.parent):
        end_cut_line(ledger)
        before = ledger_size(ledger)
    links = {output: cost for output, cost in known.items() if job_class(output) == "link"}
    with hold(limit) as held:
        session = Session(plan, held, room, window, expected, links, ledger, before)
        plan.gate.write(cpus=plan.jobs.jobs, room=room, unknown=unknown, held=held, expected=known | expected)
        try:
            yield session
        finally:
            records = session.records()
            session.use = _use(session, records)
            if records:
                learn(plan.learned, records)


def check_room(room: int, expected: Mapping[str, Cost], plan: JobPlan) -> None:
    """Refuse a cap that is too small for a file of known cost.

    Raises:
        MemoryCapError: With the file's name and what it needs.
    """
    output, cost = max(expected.items(), key=lambda item: item[1].bytes, default=("", Cost(0, 0)))
    if cost.bytes > room:
        least = format_size(plan.cap - room + cost.bytes)
        raise MemoryCapError(
            f"a memory cap of {format_size(plan.cap)} is too small: {output} alone needs {format_size(cost.bytes)}, "
            f"and {format_size(max(0, room))} are left for compilers",
            where=plan.where,
            next_step=f"allow at least {least}: a larger --memory, a larger container, or a machine with more memory",
        )


def most_launchers(files: int) -> int:
    """Return how many jobs ninja may start at once: all of them, as far as the open files allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    by_files = _MOST_LAUNCHERS if soft == resource.RLIM_INFINITY else soft - _OTHER_FILES
    return max(1, min(files + _OTHER_FILES, by_files, _MOST_LAUNCHERS))


def learn(path: Path, records: Iterable[JobRecord]) -> None:
    """Update the table of costs in the cache."""
    write_costs(path, measured_costs(records, read_costs(path)))


def _limit(plan: CapPlan) -> int:
    """Return the part of the cap that is not taken by this process itself and the supervisors of its commands."""
    return plan.jobs.cap - int(psutil.Process().memory_info().rss) - SUPERVISOR_BYTES


def _use(session: Session, records: Sequence[JobRecord]) -> MemoryUse:
    status = session.plan.gate.status()
    jobs = session.plan.jobs
    return MemoryUse(
        jobs=jobs.jobs,
        cap=jobs.cap,
        where=jobs.where,
        room=session.room,
        how=session.held.how,
        peak=status.peak_bytes if status else 0,
        wrong=tuple(wrong_predictions(records)),
    )
