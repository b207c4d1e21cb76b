"""The simulation of a farm.

Simulates farms of 1 to 256 machines that build the wheels of every commit of a week for every target, as the commits
come and all at once, with the farm's own graph of jobs and its order, and with measured costs. Only machines and time
are made up. docs/farm.md, How many machines, has the results.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import CpuwheelsError, UsageError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.store import Store, default_root
from cpuwheels.core.units import parse_size
from cpuwheels.fetch.git import Git
from cpuwheels.toolchain.native_helpers import find_helper
from farmbench.arrivals import A_WEEK, made_week, week_of
from farmbench.costs import DEFAULTS, compile_seconds, table_sources, with_numbers
from farmbench.farms import Setting, load_of, smallest_farm, whole_farm
from farmbench.plot import draw
from farmbench.results import LIMIT, Commits, Input, Results, Size
from farmbench.table import as_markdown, print_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.matrix import Matrix
    from farmbench.arrivals import Week

MACHINES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PER_DAY = (10, 34, 100, 300)
"""Commits a day of the weeks that farms are sized for."""
SIZES_CPUS = (2, 4, 16)
PARTS = (0.02, 0.1)
"""Parts of the commits that change kernels, besides the one that is given."""
WEEKS = 5
"""Made weeks that a farm has to be enough for; each has another seed."""

_ROOT = Path(__file__).parents[2]
_PER_CPU = 2 << 30
_LEAST_MEMORY = 4 << 30
_RUNS_ON = ("Linux", "x86_64")
"""The simulated machines."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the simulation and exit: 0, or 1 with ``--require`` if wheels are late or a batch is far from its bound."""
    options = _parser().parse_args(arguments)
    try:
        results = simulated(options)
        path = options.json or options.root / "dist" / "bench" / f"farm-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, results.model_dump_json(indent=1) + "\n")
    except CpuwheelsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if options.markdown:
        print(as_markdown(results))
    else:
        print_results(results, Console(highlight=False, soft_wrap=True))
    if options.plot:
        draw(results, options.plot)
    print(f"written: {path}", file=sys.stderr)
    far = any(farm.batch and farm.batch.ratio > LIMIT for farm in results.farms)
    sys.exit(1 if options.require and (far or results.smallest.farm is None) else 0)


def simulated(options: argparse.Namespace) -> Results:
    """Return the results.

    Args:
        options: As the parser has them.

    Raises:
        UsageError: Something cannot be simulated as it is given.
        CpuwheelsError: A clone cannot be read.
    """
    matrix = load_matrix(options.root)
    setting = _setting(options, matrix, options.cpus)
    made = [made_week(options.made, options.kernels, options.seed + number) for number in range(WEEKS)]
    weeks = [_real_week(options)] if options.repo else made
    week = weeks[0]
    load = load_of(week, setting)
    return Results(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=own_commit(options.root),
        targets=setting.targets,
        week=Commits(
            name=week.name,
            began=week.began,
            days=week.days,
            count=len(week.commits),
            kernel_changes=week.changes,
            seed=None if options.repo else options.seed,
        ),
        cpus=setting.cpus,
        memory=setting.memory,
        can=dict(setting.can),
        level=setting.level,
        within=setting.within,
        compile=dict(setting.costs.compile),
        measured=table_sources(options.root, setting.targets),
        inputs={name: Input(value=one.value, source=one.source) for name, one in setting.costs.numbers.items()},
        farms=tuple(whole_farm(load, count) for count in options.machines),
        smallest=_size(weeks, setting, max(options.machines)),
        sizes=_sizes(options, matrix, weeks) if options.sizes else (),
        price=options.price,
    )


def _setting(options: argparse.Namespace, matrix: Matrix, cpus: int) -> Setting:
    ready = [target for target in matrix.targets if target.is_ready]
    if unknown := set(options.targets or ()) - {target.id for target in ready}:
        raise UsageError(
            f"matrix.yaml has no ready target {', '.join(sorted(unknown))}",
            where="--targets",
            next_step=f"name some of {', '.join(target.id for target in ready)}",
        )
    chosen = [target for target in ready if not options.targets or target.id in options.targets]
    memgate = options.memgate or find_helper("memgate", Store(default_root()))
    if memgate is None:
        raise UsageError(
            "memgate is not installed yet",
            where="--memgate",
            next_step="install a C compiler and cpuwheels anew, or build a target first",
        )
    memory = options.memory or max(_LEAST_MEMORY, cpus * _PER_CPU)
    native = frozenset(target.id for target in chosen if (target.system, target.machine) == _RUNS_ON)
    emulated = [one.id for one in chosen if one.root is not None and _RUNS_ON[1] in matrix.emulator]
    can = dict.fromkeys([f"build:{target.id}" for target in chosen], 1.0)
    can |= dict.fromkeys([f"test:{name}" for name in (*native, *emulated)], 1.0)
    costs = compile_seconds(options.root, [target.id for target in chosen], memgate, cpus, memory)
    return Setting(
        targets=tuple(target.id for target in chosen),
        costs=replace(costs, native=native, numbers=with_numbers(dict(options.set))),
        cpus=cpus,
        memory=memory,
        can=can | dict(options.able),
        level=options.parity,
        within=options.within * 60.0,
    )


def _real_week(options: argparse.Namespace) -> Week:
    return week_of(options.repo, Store(default_root()), options.branch, options.until, options.days)


def _size(weeks: Sequence[Week], setting: Setting, most: int) -> Size:
    week = weeks[0]
    return Size(
        per_day=len(week.commits) / week.days,
        kernels=week.changes / len(week.commits),
        cpus=setting.cpus,
        memory=setting.memory,
        weeks=len(weeks),
        farm=smallest_farm([load_of(one, setting) for one in weeks], most),
    )


def _sizes(options: argparse.Namespace, matrix: Matrix, weeks: Sequence[Week]) -> tuple[Size, ...]:
    """Return the smallest farms for other machines, and, where weeks are made, for other weeks."""
    most = max(options.machines)
    loads: list[Sequence[Week]] = [weeks]
    if not options.repo:
        others = [(round(7 * rate), options.kernels) for rate in PER_DAY]
        others += [(options.made, part) for part in PARTS]
        loads = [[made_week(*load, options.seed + number) for number in range(WEEKS)] for load in others]
    settings = [_setting(options, matrix, cpus) for cpus in SIZES_CPUS]
    return tuple(_size(load, setting, most) for load in loads for setting in settings)


def own_commit(root: Path) -> str:
    """Return the commit of this project, with a plus if something is changed."""
    git = Git(root)
    commit = git.ask("rev-parse", "HEAD")
    changed = git.ask("status", "--porcelain", "--untracked-files=no")
    return "unknown" if commit.returncode else commit.output.strip() + ("+" if changed.output.strip() else "")


def _counts(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers above zero, such as 1,2,4")
    return sorted({int(part) for part in parts})


def _bytes(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _number(text: str) -> tuple[str, float]:
    name, value = _named(text)
    if name not in DEFAULTS:
        raise argparse.ArgumentTypeError(f"there is no number {name!r}; there are {', '.join(DEFAULTS)}")
    return name, value


def _named(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not name or not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name and a number, such as {next(iter(DEFAULTS))}=30")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench farm",
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--machines", type=_counts, default=list(MACHINES), help="numbers of machines (default: 1,2,4 … 256)")
    add("--cpus", type=int, default=16, help="CPUs of a machine (default: 16)")
    add("--memory", type=_bytes, help="of a machine for a build (default: 2G for each CPU, at least 4G)")
    add("--targets", type=lambda text: text.split(","), help="target ids (default: all that are ready)")
    add("--parity", choices=["smoke"], help="also test each wheel on a machine that can")
    add("--able", type=_named, action="append", default=[], metavar="WHAT=PART", help="such as build:macos=0.25")
    add("--within", type=float, default=30.0, help="minutes in which a wheel has to be there (default: 30)")
    add("--repo", type=Path, help="clone whose commits are taken; else a made week")
    add("--branch", default="main", help="of the clone (default: main)")
    add("--until", help="date after which its commits are left out (default: that of the newest)")
    add("--days", type=float, default=7.0, help="so many days before that (default: 7)")
    add("--made", type=int, default=A_WEEK, help=f"commits of a made week (default: {A_WEEK})")
    add("--kernels", type=float, default=0.05, help="part of them that changes kernels (default: 0.05)")
    add("--seed", type=int, default=1, help="of made weeks (default: 1)")
    add("--set", type=_number, action="append", default=[], metavar="NAME=NUMBER", help=f"of {', '.join(DEFAULTS)}")
    add("--price", type=float, help="of a machine for an hour, in whatever money")
    add("--no-sizes", dest="sizes", action="store_false", help="leave out the sizes for other loads and machines")
    add("--json", type=Path, help="results (default: a new file in dist/bench)")
    add("--markdown", action="store_true", help="print the tables alone, in Markdown")
    add("--plot", type=Path, help="draw to this file")
    add("--require", action="store_true", help="exit with 1 if wheels are late, or a batch is far from its bound")
    add("--root", type=Path, default=_ROOT, help="the project's folder")
    add("--memgate", type=Path, help="whose policy orders compilations (default: the installed one)")
    return parser
