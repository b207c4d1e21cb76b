"""A drawing of the results: how long after a commit its wheels are there, and a batch against its bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from farmbench.results import LIMIT

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from farmbench.results import Results

_BLUE, _ORANGE, _RED = "#0077bb", "#ee7733", "#cc3311"
_MINUTE = 60.0


def draw(results: Results, path: Path) -> None:
    """Draw the results to a file whose name says the format; the same bytes for the same figures."""
    rcParams["svg.hashsalt"] = "cpuwheels"
    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    delays, batches, ratios = figure.subplots(1, 3)
    counts = [farm.machines for farm in results.farms]
    _draw_delays(delays, results, counts)
    _draw_batches(batches, results, counts)
    _draw_ratios(ratios, results, counts)
    for axis in (delays, batches, ratios):
        axis.set_xscale("log", base=2)
        axis.set_xticks(counts, [str(count) for count in counts], fontsize=8)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.tick_params(axis="y", labelsize=8)
        axis.legend(fontsize=8)
    figure.supxlabel(f"machines of {results.cpus} CPUs", fontsize=10)
    week = results.week
    figure.suptitle(
        f"{week.name}: {week.count} commits, {week.kernel_changes} with new kernels, {len(results.targets)} targets",
        fontsize=11,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})


def _draw_delays(axis: Axes, results: Results, counts: list[int]) -> None:
    for name, mark, colour in (("longest", "s-", _ORANGE), ("most", "o-", _BLUE), ("median", "^-", "#777777")):
        values = [getattr(farm.delays, name) / _MINUTE for farm in results.farms]
        axis.plot(counts, values, mark, color=colour, label="95 %" if name == "most" else name)
    axis.axhline(results.within / _MINUTE, color=_RED, linestyle="--", linewidth=1, label="limit")
    axis.set_yscale("log")
    _plain(axis, [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 240, 600])
    axis.set_title("from a commit to its wheels, minutes", fontsize=10)


def _draw_batches(axis: Axes, results: Results, counts: list[int]) -> None:
    batches = [farm.batch for farm in results.farms]
    makespans = [batch.makespan / _MINUTE if batch else float("nan") for batch in batches]
    bounds = [batch.bound / _MINUTE if batch else float("nan") for batch in batches]
    axis.plot(counts, makespans, "o-", color=_BLUE, label="a farm")
    axis.plot(counts, bounds, "k--", linewidth=1, label="lower bound")
    axis.set_yscale("log")
    _plain(axis, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000])
    axis.set_title("all of them at once, minutes", fontsize=10)


def _draw_ratios(axis: Axes, results: Results, counts: list[int]) -> None:
    ratios = [farm.batch.ratio if farm.batch else float("nan") for farm in results.farms]
    axis.plot(counts, ratios, "o-", color=_BLUE, label="a farm")
    axis.axhline(LIMIT, color=_RED, linestyle="--", linewidth=1, label="limit")
    axis.set_ylim(bottom=0.95)
    axis.set_title("makespan over the lower bound", fontsize=10)


def _plain(axis: Axes, ticks: list[float]) -> None:
    """Label an axis with plain numbers."""
    low, high = axis.get_ylim()
    inside = [tick for tick in ticks if low <= tick <= high]
    axis.set_yticks(inside, [f"{tick:g}" for tick in inside])
