"""The results as tables, for a terminal and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cpuwheels.core.progress import clock
from cpuwheels.core.tables import Column, Table, print_wrapped
from cpuwheels.core.text import printable
from cpuwheels.core.units import format_size
from farmbench.results import LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from farmbench.results import Batch, Farm, Results, Size

_GB = 1e9
_MINUTE = 60.0

FARMS = ("machines", "in time", "median", "95 %", "longest", "busy", "batch", "of the bound")
SIZES = ("commits a day", "change kernels", "CPUs", "machines", "longest", "busy hours a day", "GB home", "GB between")


def farm_rows(farms: Sequence[Farm]) -> list[tuple[str, ...]]:
    """Return a row for each farm, with the columns of `FARMS`."""
    return [
        (
            str(farm.machines),
            share(farm.delays.within),
            clock(farm.delays.median),
            clock(farm.delays.most),
            clock(farm.delays.longest),
            share(farm.used.utilisation),
            clock(farm.batch.makespan) if farm.batch else "",
            _ratio(farm.batch),
        )
        for farm in farms
    ]


def size_rows(sizes: Sequence[Size], days: float) -> list[tuple[str, ...]]:
    """Return a row for each size, with the columns of `SIZES`.

    Args:
        sizes: The sizes.
        days: How long their weeks are.
    """
    return [
        (
            f"{size.per_day:.0f}",
            f"{100 * size.kernels:.2g} %",
            str(size.cpus),
            *(
                (
                    str(size.farm.machines),
                    clock(size.farm.delays.longest),
                    f"{size.farm.used.hours / days:.1f}",
                    f"{size.farm.used.home / days / _GB:.1f}",
                    f"{size.farm.used.carried / days / _GB:.2f}",
                )
                if size.farm
                else ("more", "", "", "", "")
            ),
        )
        for size in sizes
    ]


def share(part: float) -> str:
    """Return a part in percent; 100 % only if it is all."""
    percent = 100 * part
    return "99.9 %" if 99.9 <= percent < 100 else f"{percent:.3g} %"  # noqa: PLR2004


def _ratio(batch: Batch | None) -> str:
    return f"{batch.ratio:.2f}" if batch else ""


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["--:"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def about(results: Results) -> list[str]:
    """Return what was simulated, a sentence each."""
    week = results.week
    compiled = ", ".join(f"{target} {clock(seconds)}" for target, seconds in results.compile.items())
    tests = f" and parity {results.level}" if results.level else ""
    commits = f"{week.name}: {week.count} commits in {week.days:g} days from {week.began}"
    return [
        f"{commits}, {week.kernel_changes} of them with new kernels; wheels{tests} of {', '.join(results.targets)}",
        f"a machine has {results.cpus} CPUs and {format_size(results.memory)}; all kernels of a target: {compiled}",
        *(f"{name}: {found.value:,.10g} ({found.source})" for name, found in results.inputs.items()),
    ]


def verdicts(results: Results) -> list[str]:
    """Return what follows from the figures, a sentence each."""
    size = results.smallest
    limit = f"{results.within / _MINUTE:g} minutes"
    weeks = "the week" if size.weeks == 1 else f"each of {size.weeks} made weeks"
    if size.farm is None:
        lines = [f"no farm of the sizes looked at makes every wheel of {weeks} within {limit} of its commit"]
    else:
        number = "1 machine makes" if size.farm.machines == 1 else f"{size.farm.machines} machines make"
        used = size.farm.used
        lines = [
            f"{number} every wheel of {weeks} within {limit} of its commit, and no fewer do",
            f"a wheel takes {used.minutes_per_wheel:.2f} minutes of a machine on average, kernels included",
        ]
        if results.price is not None:
            paid = size.farm.machines * results.week.days * 24 * results.price
            part = used.minutes_per_wheel / _MINUTE * results.price
            lines.append(
                f"at {results.price:g} for a machine and hour: {paid:,.2f} for the whole time, "
                f"{paid / size.farm.delays.wheels:.3f} a wheel; {part:.4f} a wheel if only busy time is paid"
            )
    return [*lines, _bound_verdict(results.farms)]


def _bound_verdict(farms: Sequence[Farm]) -> str:
    ratios = {farm.machines: farm.batch.ratio for farm in farms if farm.batch}
    above = ", ".join(str(count) for count, ratio in ratios.items() if ratio > LIMIT)
    most = f"a batch takes at most {max(ratios.values(), default=1.0):.2f} of the bound"
    return f"{most}; more than {LIMIT} on {above} machines" if above else f"{most} ({LIMIT} is wanted)"


def print_results(results: Results, console: Console) -> None:
    """Print everything, as wide as the terminal."""
    for line in about(results):
        print_wrapped(console, Text(printable(line)), hanging=2)
    console.print()
    farms = Table([Column(name, right=True) for name in FARMS])
    for row in farm_rows(results.farms):
        farms.add_row(*row)
    farms.print(console)
    if results.sizes:
        console.print()
        sizes = Table([Column(name, right=True) for name in SIZES])
        for row in size_rows(results.sizes, results.week.days):
            sizes.add_row(*row)
        sizes.print(console)
    console.print()
    for line in verdicts(results):
        print_wrapped(console, Text(printable(line)), hanging=2)


def as_markdown(results: Results) -> str:
    """Return both tables in Markdown, as docs/farm.md has them."""
    tables = [markdown(FARMS, farm_rows(results.farms))]
    if results.sizes:
        tables.append(markdown(SIZES, size_rows(results.sizes, results.week.days)))
    return "\n\n".join(tables)
