"""What was measured of a farm's engine, and what it comes down to."""

from __future__ import annotations

import statistics

from cpuwheels.core.models import Strict

LIMIT_SECONDS, LIMIT_PART = 0.5, 0.02
"""What a job may take longer with the engine, and the part of all CPU seconds that may be the engine's."""


class Turn(Strict):
    """One batch.

    Attributes:
        workers: Of the farm; 0 for one machine without a farm.
        wall: Seconds of the command.
        cpu: CPU seconds of the command, of the farm's processes and of all that they started.
        own: CPU seconds of the command's process and the farm's alone, without those of the jobs' commands.
        jobs: How many there were.
        job_seconds: What they took, together, as whoever did them measured.
    """

    workers: int
    wall: float
    cpu: float
    own: float
    jobs: int
    job_seconds: float


class Results(Strict):
    """All of it."""

    when: str
    commit: str
    machine: str
    kernels: int
    """Commits of a batch that change kernels."""
    parity: str = ""
    """Level at which each wheel is tested; empty if it is not."""
    groups: bool
    """Whether each worker had a control group of its own."""
    turns: tuple[Turn, ...]

    def median(self, workers: int, name: str) -> float:
        """Return the median of one figure of the batches with so many workers."""
        return statistics.median(float(getattr(turn, name)) for turn in self.turns if turn.workers == workers)

    def seconds_a_job(self) -> float:
        """Return how much longer than its own seconds a job takes on a farm of one worker, the start included."""
        return statistics.median((turn.wall - turn.job_seconds) / turn.jobs for turn in self.turns if turn.workers == 1)

    def added(self, workers: int) -> float:
        """Return the CPU seconds that a farm's own processes take more than the command does without a farm."""
        return self.median(workers, "own") - self.median(0, "own")

    def part(self) -> float:
        """Return the CPU seconds that the largest farm adds, divided by all of one machine without a farm."""
        return self.added(max(turn.workers for turn in self.turns)) / self.median(0, "cpu")

    def lines(self) -> list[str]:
        """Return what was found, for people."""
        numbers = sorted({turn.workers for turn in self.turns})
        most, jobs = max(numbers), self.turns[0].jobs
        tested = f"; each wheel is tested at level {self.parity}" if self.parity else ""
        lines = [f"{jobs} jobs; commits that change kernels: {self.kernels}{tested}"]
        for count in numbers:
            name = f"farm of {count}" if count else "one machine"
            wall, cpu, own = (self.median(count, figure) for figure in ("wall", "cpu", "own"))
            lines.append(f"{name}: {wall:.1f} s, {cpu:.1f} CPU seconds, of them {own:.2f} without the jobs' commands")
        lines.append(
            f"a job takes {self.seconds_a_job():.2f} s more on a farm of one worker, with the start of the command "
            f"({LIMIT_SECONDS} is allowed)"
        )
        added = self.added(most)
        lines.append(
            f"the engine adds {added:.2f} CPU seconds with {most} workers, {added / jobs:.2f} a job: "
            f"{100 * self.part():.2f} % of one machine's ({100 * LIMIT_PART:.0f} % is allowed)"
        )
        return lines
