"""memgate's admission policy on simulated machines: makespan against the lower bound.

    nox -s simulation [-- --costs measured/x86.tsv] [--plot docs/images/simulation.svg] [--json machines.json]

Every job takes what the table says. Files wait for the precompiled header of their target, and links for all files.
Compared with a lower bound (work / CPUs, the longest chain of jobs, time multiplied by memory / cap), and with the best
fixed number of jobs that is safe: the largest whose largest files together stay below the cap, started in the order of
the table.
"""

from __future__ import annotations

import argparse
import heapq
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.installation import version_text
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.models import Strict
from cpuwheels.core.store import Store, default_root
from cpuwheels.kernels.memory.costs import Cost, job_class, read_costs
from cpuwheels.toolchain.native_helpers import find_helper

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 1 << 30
CPUS = (4, 8, 16, 32, 64, 128)
CAPS = (4, 6, 8, 16, 32, 64, 128, 256)
"""GiB."""


@dataclass(frozen=True)
class Cell:
    """One machine.

    Attributes:
        cpus: Jobs at once.
        cap: GiB for all jobs.
        makespan: Seconds with memgate's policy.
        bound: Lower bound of the seconds, whatever the order.
        fixed: Seconds with the best fixed number of jobs that is safe.
        jobs: That number.
    """

    cpus: int
    cap: int
    makespan: float
    bound: float
    fixed: float
    jobs: int

    @property
    def ratio(self) -> float:
        """Makespan over the lower bound."""
        return self.makespan / self.bound

    @property
    def gain(self) -> float:
        """Fixed number of jobs over makespan."""
        return self.fixed / self.makespan


@dataclass(frozen=True)
class Job:
    """One compilation or link.

    Attributes:
        cost: What it takes.
        after: Indices of the jobs that have to end before; all of them smaller than its own.
    """

    cost: Cost
    after: tuple[int, ...] = ()


class Machines(Strict):
    """Everything of one simulation. Seconds of CPU time throughout."""

    project: str
    """Our own version, with the commit of a checkout."""
    measured: tuple[str, ...]
    """What was measured, when and where."""
    work: float
    """Of all jobs."""
    longest: str
    """The file that takes longest."""
    longest_seconds: float
    chain: float
    """Of the longest chain of jobs that wait for one another: what remains with CPUs and memory without limit."""
    cells: tuple[Cell, ...]


def jobs_of(costs: Mapping[str, Cost]) -> list[Job]:
    """Return the jobs of a table; a job comes after those that it waits for.

    Which of them wait follows from their names: a file for ``cmake_pch.hxx.gch`` in the folder of its target, a link
    for all files, and a module for the libraries besides.
    """
    headers = [name for name in costs if name.endswith(".gch")]
    links = [name for name in costs if job_class(name) == "link"]
    modules = [name for name in links if not name.startswith("lib")]
    files = [name for name in costs if name not in {*headers, *links}]
    libraries = [name for name in links if name not in modules]
    order = {name: index for index, name in enumerate([*headers, *files, *libraries, *modules])}
    header_of = {header.rpartition("/")[0]: order[header] for header in headers}

    def after(name: str) -> tuple[int, ...]:
        if name in links:
            return tuple(order[other] for other in [*files, *(libraries if name in modules else [])])
        target = name[: name.rfind(".dir/") + len(".dir")]
        return (header_of[target],) if name in files and target in header_of else ()

    return [Job(costs[name], after(name)) for name in order]


def simulate(memgate: Path, jobs: list[Job], cpus: int, cap: int) -> float:
    """Return the makespan of memgate's own policy, in seconds."""
    lines = []
    for job in jobs:
        after = f" after {','.join(str(index + 1) for index in job.after)}" if job.after else ""
        lines.append(f"{job.cost.seconds} {job.cost.bytes}{after}\n")
    command: list[str | Path] = [memgate, "--simulate", str(cpus), str(cap)]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["makespan"])


def lower_bound(jobs: list[Job], cpus: int, cap: int) -> float:
    """Return a lower bound of the seconds for any order of the jobs.

    The longest chain of jobs that wait for one another; and for each moment, what cannot start before it, divided by
    the CPUs, or as time multiplied by memory by the cap (the head-based bound of scheduling with release dates).
    """
    starts: list[float] = []  # of each job, if it waited for nothing but other jobs
    for job in jobs:
        starts.append(max((starts[index] + jobs[index].cost.seconds for index in job.after), default=0.0))
    bound = max(start + job.cost.seconds for start, job in zip(starts, jobs, strict=True))
    for moment in set(starts):
        costs = [job.cost for start, job in zip(starts, jobs, strict=True) if start >= moment]
        work = sum(cost.seconds for cost in costs)
        area = sum(cost.seconds * cost.bytes for cost in costs)
        bound = max(bound, moment + work / cpus, moment + area / cap)
    return bound


def safe_jobs(jobs: list[Job], cpus: int, cap: int) -> int:
    """Return the largest number of jobs that stays below the cap whichever files are compiled together; at least 1."""
    held = count = 0
    for size in sorted((job.cost.bytes for job in jobs), reverse=True)[:cpus]:
        held += size
        if held > cap:
            break
        count += 1
    return max(1, count)


def fixed(jobs: list[Job], slots: int) -> float:
    """Return the makespan of a fixed number of jobs at once; of those that can start, the first one does."""
    waiting = list(range(len(jobs)))
    running: list[tuple[float, int]] = []
    ended: set[int] = set()
    now = 0.0
    while waiting or running:
        while (
            len(running) < slots and (ready := next((i for i in waiting if ended.issuperset(jobs[i].after)), -1)) >= 0
        ):
            waiting.remove(ready)
            heapq.heappush(running, (now + jobs[ready].cost.seconds, ready))
        now, index = heapq.heappop(running)
        ended.add(index)
    return now


def cells(memgate: Path, costs: Mapping[str, Cost]) -> list[Cell]:
    """Return every machine of the grid whose cap holds the largest file."""
    jobs = jobs_of(costs)
    worst = max(job.cost.bytes for job in jobs)
    found = []
    for cap in (cap for cap in CAPS if cap * GIB >= worst):
        for cpus in CPUS:
            slots = safe_jobs(jobs, cpus, cap * GIB)
            makespan = simulate(memgate, jobs, cpus, cap * GIB)
            bound = lower_bound(jobs, cpus, cap * GIB)
            found.append(Cell(cpus, cap, makespan, bound, fixed(jobs, slots), slots))
    return found


def table(found: list[Cell]) -> str:
    """Return a Markdown table: ratio to the bound, and in brackets how much longer a fixed number of jobs takes."""
    caps = sorted({cell.cap for cell in found})
    by = {(cell.cpus, cell.cap): cell for cell in found}
    lines = ["| CPUs | " + " | ".join(f"{cap} GiB" for cap in caps) + " |", "|---" * (len(caps) + 1) + "|"]
    for cpus in CPUS:
        row = [f"{by[cpus, cap].ratio:.2f} ({by[cpus, cap].gain:.1f}x)" for cap in caps]
        lines.append(f"| {cpus} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def machines(path: Path, costs: Mapping[str, Cost], found: list[Cell]) -> Machines:
    """Return the simulation as it is written to JSON.

    Args:
        path: The table of costs; its first lines say what was measured, and where.
        costs: Its content.
        found: The simulated machines.
    """
    files = {name: cost for name, cost in costs.items() if job_class(name) != "link"}
    longest = max(files, key=lambda name: files[name].seconds)
    jobs = jobs_of(costs)
    return Machines(
        project=version_text(),
        measured=tuple(line[2:] for line in path.read_text().splitlines() if line.startswith("# "))[:2],
        work=round(sum(cost.seconds for cost in costs.values()), 1),
        longest=longest,
        longest_seconds=files[longest].seconds,
        chain=round(lower_bound(jobs, len(jobs), sum(cost.bytes for cost in costs.values())), 1),
        cells=tuple(found),
    )


def plot(found: list[Cell], path: Path) -> None:
    """Draw the makespan over the cap for each number of CPUs, with bound and fixed number of jobs."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  (only the session has it)
    from matplotlib import rcParams  # noqa: PLC0415

    rcParams["svg.hashsalt"] = "cpuwheels"  # the same file for the same numbers
    spans = [(cell.bound, cell.fixed) for cell in found]
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    seconds = [step * unit for unit in (1, 10, 100, 1000, 10000) for step in (1, 2, 5) if low <= step * unit <= high]
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.2), sharex=True, sharey=True, layout="constrained")
    for axis, cpus in zip(axes.flat, CPUS, strict=True):
        row = [cell for cell in found if cell.cpus == cpus]
        caps = [cell.cap for cell in row]
        axis.plot(caps, [cell.fixed for cell in row], "s:", color="#cc3311", label="largest safe fixed -j")
        axis.plot(caps, [cell.makespan for cell in row], "o-", color="#0077bb", label="memgate")
        axis.plot(caps, [cell.bound for cell in row], "k--", linewidth=1, label="lower bound")
        axis.set(xscale="log", yscale="log", title=f"{cpus} CPUs")
        axis.set_xticks(caps, [str(cap) for cap in caps])
        axis.set_yticks(seconds, [str(second) for second in seconds])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    figure.supxlabel("memory cap, GiB")
    figure.supylabel("makespan, seconds")
    axes.flat[0].legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Print the table, and draw it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memgate", type=Path, default=find_helper("memgate", Store(default_root())))
    parser.add_argument("--costs", type=Path, default=Path("measured/x86.tsv"))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.memgate is None:
        parser.error("memgate is not installed yet: install a C compiler and cpuwheels anew, or build a target first")
    costs = read_costs(arguments.costs)
    found = cells(arguments.memgate, costs)
    print(table(found))
    print(f"\nlargest ratio to the bound: {max(cell.ratio for cell in found):.3f}")
    if arguments.plot:
        plot(found, arguments.plot)
    if arguments.json:
        write_atomic(arguments.json, machines(arguments.costs, costs, found).model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    main()
