"""Bisections of longer ranges with measured costs: how many commits are compiled, and how long it takes.

The search is the real one. A range has commits that change kernels at random places; what a commit costs follows from
whether its kernels were met before. `git bisect run` is the same search without costs, which then tests the commit in
the middle.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisectbench.results import OURS, THEIRS
from cpuwheels.bisect.search import Search, Verdict
from cpuwheels.core.errors import UsageError
from cpuwheels.core.progress import clock
from cpuwheels.source.history import Commit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bisectbench.results import Results, Run

LENGTHS = (1_000, 10_000)
KERNEL_PARTS = (0.02, 0.1)
"""Parts of the commits that change kernels."""

TRIALS = 30

_NOTABLE = 1.5
"""A build that takes this many times as long as one with every object cached has compiled some."""


@dataclass(frozen=True)
class Prices:
    """Seconds for one commit.

    Attributes:
        assembled: Ours, with cached kernels.
        compiled: Ours, with kernels that must be compiled.
        known: Theirs, where the compiler cache has every object.
        new: Theirs, where it lacks those of a changed kernel.
    """

    assembled: float
    compiled: float
    known: float
    new: float


def prices(results: Results) -> Prices:
    """Return the low medians of a benchmark run: some builds of its first runs started with empty caches.

    Raises:
        UsageError: It has not measured all of them.
    """

    def seconds(runs: Sequence[Run], side: str, *, compiled: bool) -> list[float]:
        steps = (step for run in runs if run.side == side for step in run.steps)
        return [step.seconds for step in steps if step.compiled == compiled]

    known = seconds(results.warm, THEIRS, compiled=True)
    cached = max(known, default=0.0)
    found = {
        "assembled": seconds(results.warm, OURS, compiled=False),
        "compiled": seconds(results.first, OURS, compiled=True),
        "known": known,
        "new": [spent for spent in seconds(results.first, THEIRS, compiled=True) if spent > _NOTABLE * cached],
    }
    if empty := [name for name, values in found.items() if not values]:
        raise UsageError(f"the results lack: {', '.join(empty)}", where="--simulate", next_step="run it whole")
    return Prices(**{name: statistics.median_low(values) for name, values in found.items()})


@dataclass(frozen=True)
class Outcome:
    """Medians over the trials of one range.

    Attributes:
        probes: Commits that we tested.
        compiled: Those of them that were compiled.
        ours: Seconds.
        theirs: Seconds of ``git bisect run``.
    """

    probes: float
    compiled: float
    ours: float
    theirs: float


def simulate(length: int, kernel_part: float, costs: Prices, seed: int) -> Outcome:
    """Return what bisections of random ranges take; both ends were built before.

    Args:
        length: Commits in the range.
        kernel_part: The part of them that change kernels.
        costs: Seconds.
        seed: Of the places of kernel changes and faults.
    """
    draw = random.Random(seed)  # noqa: S311  (a simulation)
    search = Search([Commit(str(number), (str(number - 1),)) for number in range(length)])
    found = []
    for _ in range(TRIALS):
        kernels, classes = 0, []
        for _number in range(length):
            kernels += draw.random() < kernel_part
            classes.append(kernels)
        first_bad = draw.randrange(length)
        ours = _bisected(search, classes, first_bad, (costs.assembled, costs.compiled), by_cost=True)
        theirs = _bisected(search, classes, first_bad, (costs.known, costs.new), by_cost=False)
        found.append((ours[0], ours[1], ours[2] + 2 * costs.assembled, theirs[2]))  # we test both ends, too
    return Outcome(*(statistics.median(column) for column in zip(*found, strict=True)))


def _bisected(
    search: Search, classes: list[int], first_bad: int, seconds: tuple[float, float], *, by_cost: bool
) -> tuple[int, int, float]:
    """Return commits tested, commits compiled and seconds."""
    at_hand = {0, classes[-1]}
    verdicts: dict[str, Verdict] = {}
    compiled, spent = 0, 0.0

    def cost(name: str) -> float:
        return seconds[classes[int(name)] not in at_hand]

    ask: Callable[[str], float] = cost if by_cost else lambda _name: 1.0
    while probes := search.next_probes(verdicts, cost=ask):
        (name,) = probes
        spent += cost(name)
        compiled += classes[int(name)] not in at_hand
        at_hand.add(classes[int(name)])
        verdicts[name] = Verdict.BAD if int(name) >= first_bad else Verdict.GOOD
    return len(verdicts), compiled, spent


def simulated(results: Results, seed: int) -> str:
    """Return a table of simulated ranges.

    Raises:
        UsageError: The results do not have the costs.
    """
    costs = prices(results)
    own = f"{costs.assembled:.1f} s assembled, {costs.compiled:.1f} s compiled"
    lines = [
        f"ours: {own}; git bisect run: {costs.known:.1f} s with every object cached, {costs.new:.1f} s without",
        "",
        "| commits | of them kernels | probes | compiled | ours | git bisect run | ratio |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for length in LENGTHS:
        for part in KERNEL_PARTS:
            one = simulate(length, part, costs, seed)
            lines.append(
                f"| {length:,} | {part:.0%} | {one.probes:g} | {one.compiled:g} | {clock(one.ours)} | "
                f"{clock(one.theirs)} | {one.ours / one.theirs:.3f} |"
            )
    return "\n".join(lines)
