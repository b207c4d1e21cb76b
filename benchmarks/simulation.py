"""memgate's admission policy on machines that are not at hand: makespan against the lower bound.

    nox -s simulation [-- --costs measured/x86.tsv] [--plot docs/images/simulation.svg]

Every job is ready at the start and takes what the table says: links and precompiled headers, which in a build
come after and before others, too. Compared with the lower bound max(work / CPUs, longest job, time multiplied by
memory / cap), and with the best fixed number of jobs that is safe: the largest whose largest files together
stay below the cap, started in the order of the table.
"""

from __future__ import annotations

import argparse
import heapq
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cpuwheels.gate.costs import Cost, read_costs
from cpuwheels.native import find_helper
from cpuwheels.store import Store, default_root

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
        bound: Seconds below which no order can come.
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


def simulate(memgate: Path, costs: list[Cost], cpus: int, cap: int) -> float:
    """Return the makespan that memgate's own policy comes to, in seconds."""
    text = "".join(f"{cost.seconds} {cost.bytes}\n" for cost in costs)
    command = [memgate, "--simulate", str(cpus), str(cap)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["makespan"])


def lower_bound(costs: list[Cost], cpus: int, cap: int) -> float:
    """Return the seconds below which no order of the jobs can come."""
    work = sum(cost.seconds for cost in costs)
    area = sum(cost.seconds * cost.bytes for cost in costs)
    return max(work / cpus, *(cost.seconds for cost in costs), area / cap)


def safe_jobs(costs: list[Cost], cpus: int, cap: int) -> int:
    """Return the largest number of jobs that stays below the cap whichever files meet; at least 1."""
    held = jobs = 0
    for size in sorted((cost.bytes for cost in costs), reverse=True)[:cpus]:
        held += size
        if held > cap:
            break
        jobs += 1
    return max(1, jobs)


def fixed(costs: list[Cost], jobs: int) -> float:
    """Return the makespan of a fixed number of jobs, started in the order given."""
    slots = [0.0] * jobs
    for cost in costs:
        heapq.heappush(slots, heapq.heappop(slots) + cost.seconds)
    return max(slots)


def cells(memgate: Path, costs: list[Cost]) -> list[Cell]:
    """Return every machine of the grid whose cap holds the largest file."""
    worst = max(cost.bytes for cost in costs)
    found = []
    for cap in (cap for cap in CAPS if cap * GIB >= worst):
        for cpus in CPUS:
            jobs = safe_jobs(costs, cpus, cap * GIB)
            makespan = simulate(memgate, costs, cpus, cap * GIB)
            bound = lower_bound(costs, cpus, cap * GIB)
            found.append(Cell(cpus, cap, makespan, bound, fixed(costs, jobs), jobs))
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
    arguments = parser.parse_args()
    if arguments.memgate is None:
        parser.error("memgate is not there yet: install a C compiler and cpuwheels anew, or build a target first")
    found = cells(arguments.memgate, list(read_costs(arguments.costs).values()))
    print(table(found))
    print(f"\nlargest ratio to the bound: {max(cell.ratio for cell in found):.3f}")
    if arguments.plot:
        plot(found, arguments.plot)


if __name__ == "__main__":
    main()
