"""A drawing of the results: our figures as shares of the unsteered build's, and the effect of memory caps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from buildbench.results import CAPS, EDIT, EDIT_UNSTEERED, OURS, UNSTEERED
from buildbench.table import shown
from buildbench.targets import CAPPED, COLD, TIGHT_CAP, cpu, kernels, peak, ratio, seen
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from buildbench.results import Results

_OURS_COLOUR, _CAP_COLOUR, _TARGET_COLOUR = "#0077bb", "#ee7733", "#cc3311"

Bar = tuple[str, float, str, float | None]
"""Its name, its length, the text next to it, and the target if there is one."""


def bars(results: Results) -> list[Bar]:
    """Return ours as a part of unsteered, figure by figure."""
    found: list[Bar] = []
    for title, theirs, own in (("cold", UNSTEERED, OURS), ("one file edited", EDIT_UNSTEERED, EDIT)):
        for what, pick, unit in (
            ("CPU seconds", cpu, "seconds"),
            ("wall, to the modules", kernels, "seconds"),
            ("peak memory", seen, "bytes"),
        ):
            first, second = results.value(theirs, pick), results.value(own, pick)
            part = ratio(second, first)
            if part is not None:
                texts = [
                    shown(value, "seconds") if unit == "seconds" else format_size(value or 0)
                    for value in (second, first)
                ]
                limit = COLD if (title, what) == ("cold", "CPU seconds") else None
                found.append((f"{title}: {what}", part, f"{texts[0]} of {texts[1]}", limit))
    sizes = [sum(part.values()) for part in (results.sizes.ours, results.sizes.unsteered)]
    if all(sizes):
        texts = [shown(size, "bytes") for size in sizes]
        found.append(("modules", sizes[0] / sizes[1], f"{texts[0]} of {texts[1]}", None))
    return found


def cap_bars(results: Results) -> list[Bar]:
    """Return, for each cap, the peak as a part of it, and the wall time as a part of that without a cap."""
    peaks: list[Bar] = []
    walls: list[Bar] = []
    for key in results.caps():
        name, cap = key.removeprefix(CAPS), results.runs[key][0].cap
        part = ratio(results.most(key, peak), cap)
        if part is not None:
            peaks.append((f"cap {name}: peak, of the cap", part, format_size(results.most(key, peak) or 0), 1.0))
        part = ratio(results.value(key, kernels), results.value(results.uncapped(), kernels))
        if part is not None:
            limit = CAPPED if cap == TIGHT_CAP else None
            walls.append((f"cap {name}: wall, of uncapped", part, shown(results.value(key, kernels), "seconds"), limit))
    return peaks + walls


def draw(results: Results, paths: Sequence[Path]) -> None:
    """Draw the results to files whose names say the format; the same bytes for the same figures."""
    rcParams["svg.hashsalt"] = "cpuwheels"
    compared, capped = bars(results), cap_bars(results)
    figure = Figure(figsize=(13, 1.4 + 0.42 * max(len(compared), len(capped), 3)), layout="constrained")
    FigureCanvasAgg(figure)
    if capped:
        left, right = figure.subplots(1, 2)
        _draw_bars(right, capped, _CAP_COLOUR)
        right.set_title("ours below a memory cap", fontsize=10)
    else:
        left = figure.subplots()
    _draw_bars(left, compared, _OURS_COLOUR)
    left.set_title("ours as a part of the unsteered build", fontsize=10)
    subject, machine = results.subject, results.machine
    figure.suptitle(
        f"vLLM {subject.version}, {subject.target}: {machine.cpus} CPUs of {machine.processor}", fontsize=11
    )
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})


def _draw_bars(axis: Axes, found: Sequence[Bar], colour: str) -> None:
    axis.barh(range(len(found)), [part for _, part, _, _ in found], height=0.6, color=colour)
    for row, (_, part, text, limit) in enumerate(found):
        text_place = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
        axis.text(part + 0.02, row, f"{part:.2f}  ({text})", va="center", fontsize=8, bbox=text_place, zorder=3)
        if limit is not None:
            axis.plot([limit, limit], [row - 0.42, row + 0.42], color=_TARGET_COLOUR, linewidth=2)
    axis.axvline(1, color="black", linewidth=0.8, linestyle="--", zorder=0)
    if any(limit is not None for *_, limit in found):
        mark = Line2D([], [], color=_TARGET_COLOUR, linewidth=2, label="target")
        axis.legend(handles=[mark], fontsize=8, loc="upper right", frameon=False, bbox_to_anchor=(1, 1.07))
    axis.set_yticks(range(len(found)), [name for name, *_ in found], fontsize=8)
    axis.set_xlim(0, max([1.1, *(part for _, part, _, _ in found)]) * 1.35)
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="x", labelsize=8)
