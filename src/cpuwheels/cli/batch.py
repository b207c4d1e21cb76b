"""The command that makes many wheels, on this machine or on a farm."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import click

from cpuwheels.cli.build import UNSANDBOXED
from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.farm_options import (
    PRIORITY,
    SECOND_OPINION,
    WORKERS_OWN,
    open_farm,
    opinions_of,
    refuse_alone,
    uses_farm,
)
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.ranges import JobCount, SizeText
from cpuwheels.cli.shared_store import takes_from_store
from cpuwheels.config.options import BuildOptions, Level, ToolchainChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.batch import Came
    from cpuwheels.farm.executor import Executor
    from cpuwheels.farm.graph import Order, Wanted
    from cpuwheels.farm.opinion import Opinions


class _Batch(TypedDict):
    """The options of many wheels, as click names them."""

    source: tuple[str, ...]
    all_releases: bool
    since: str | None
    branch: str
    repo: Path | None
    toolchain: ToolchainChoice
    memory: str | None
    jobs: str | None
    locked: bool
    allow_fallbacks: bool
    allow_unsandboxed: bool
    upstream_kernels: bool
    upstream_speed: bool
    level: Level | None
    models: tuple[str, ...]
    features: tuple[str, ...]
    priority: int
    second_opinion: bool


_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("targets", nargs=-1, required=True)
@click.option("--source", multiple=True, help="Release, or commit by hash, tag or branch; may be repeated.")
@click.option("--all-releases", is_flag=True, help="Every release that matrix.yaml pins.")
@click.option("--since", help="Every commit of --branch after this one, the newest first.")
@click.option("--branch", default="main", show_default=True, help="Whose commits --since means.")
@click.option("--repo", type=_PATH, help="Clone of vLLM in which commits are looked up.")
@click.option(
    "--toolchain",
    type=click.Choice(["auto", "host", "debian"]),
    default="auto",
    show_default=True,
    help="As for a build.",
)
@click.option("--memory", type=SizeText(), help="Memory cap, as for a build; workers of a farm have their own.")
@click.option("--jobs", type=JobCount(), help="Compilations at once, as for a build; workers of a farm have their own.")
@click.option("--locked", is_flag=True, help="Fetch only what is listed with its digest; refuse fallbacks.")
@click.option("--allow-fallbacks", is_flag=True, help="With --locked: use fallbacks that are listed.")
@UNSANDBOXED
@click.option("--upstream-kernels", is_flag=True, help="Leave upstream's kernels as they are, as for a build.")
@click.option("--upstream-speed", is_flag=True, help="Leave upstream's kernels as fast as they are, as for a build.")
@click.option("--parity", "level", type=click.Choice(get_args(Level)), help="Test each wheel's kernels at this level.")
@click.option(
    "--serve", "models", metavar="MODEL", multiple=True, help="Serve this model from each wheel; may be repeated."
)
@click.option(
    "--on",
    "features",
    metavar="FEATURE",
    multiple=True,
    help="Test on a CPU that has this feature, such as avx512_bf16 or amx-usable; may be repeated.",
)
@PRIORITY
@SECOND_OPINION
@uses_farm
@without_credentials
@pass_paths
@takes_from_store
def batch(
    paths: Paths, /, targets: tuple[str, ...], farm: str | None, farm_keys: Path | None, **options: Unpack[_Batch]
) -> None:
    """Build the wheels of several TARGETS and sources, and test them; what is there already is not made again."""
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.batch import require_all, run_batch
    from cpuwheels.farm.estimate import estimates
    from cpuwheels.farm.graph import make_graph
    from cpuwheels.farm.journal import Journal

    _refuse(options, farm)
    matrix, reporter, journal = load_matrix(paths.matrix), Reporter("batch"), Journal(paths.dist)
    wanted = _wanted(paths, matrix, targets, options, reporter)
    jobs = make_graph(wanted, _order(paths, options), estimates(paths, matrix, journal.seconds()))
    with ExitStack() as stack:
        executor, opinions = _executor(paths, matrix, options, farm, farm_keys, stack, reporter)
        with reporter.stage("jobs", f"{len(wanted)} wheels, {'on a farm' if farm else 'on this machine'}"):
            came = run_batch(jobs, executor, journal, paths, reporter, opinions)
    _print(came, paths)
    require_all(came)


def _refuse(options: _Batch, farm: str | None) -> None:
    """Refuse options that mean nothing where the jobs are done.

    Raises:
        UsageError: One is given.
    """
    from cpuwheels.core.errors import UsageError

    refuse_alone(farm, second_opinion=options["second_opinion"], priority=options["priority"])
    given = {"--memory": options["memory"], "--jobs": options["jobs"]}
    if farm and (wrong := [name for name, value in given.items() if value]):
        raise UsageError(WORKERS_OWN, where=wrong[0], next_step="give it to cpuwheels farm")


def _wanted(paths: Paths, matrix: Matrix, targets: Sequence[str], options: _Batch, reporter: Reporter) -> list[Wanted]:
    from cpuwheels.core.store import Store
    from cpuwheels.farm.graph import Wanted
    from cpuwheels.farm.sources import Asked, find_sources

    ids = [matrix.buildable(name).id for name in dict.fromkeys(targets)]
    asked = Asked(options["source"], options["all_releases"], options["since"], options["branch"], options["repo"])
    sources = find_sources(asked, matrix, Store(paths.cache), reporter)
    return [Wanted(target, source, kernels) for source, kernels in sources.items() for target in ids]


def _order(paths: Paths, options: _Batch) -> Order:
    from cpuwheels.farm.graph import Order
    from cpuwheels.farm.job import project_identity

    build = BuildOptions(
        toolchain=options["toolchain"],
        locked=options["locked"],
        allow_fallbacks=options["allow_fallbacks"],
        allow_unsandboxed=options["allow_unsandboxed"],
        upstream_kernels=options["upstream_kernels"],
        upstream_speed=options["upstream_speed"],
    )
    return Order(
        identity=project_identity(paths),
        options=tuple(build.as_arguments()),
        level=options["level"],
        models=options["models"],
        features=frozenset(options["features"]),
        priority=options["priority"],
    )


def _executor(
    paths: Paths,
    matrix: Matrix,
    options: _Batch,
    farm: str | None,
    farm_keys: Path | None,
    stack: ExitStack,
    reporter: Reporter,
) -> tuple[Executor, Opinions | None]:
    """Return who does the jobs, and who is asked about wheels."""
    from cpuwheels.core.elsewhere import elsewhere
    from cpuwheels.core.store import Store

    if farm is not None:
        remote = stack.enter_context(open_farm(paths, farm, farm_keys))
        return remote, opinions_of(remote, reporter, wanted=options["second_opinion"])
    from cpuwheels.farm.local import LocalExecutor
    from cpuwheels.farm.machine import this_offers
    from cpuwheels.farm.site import Site

    shared = elsewhere()
    site = Site(
        name="",
        paths=paths,
        memory=options["memory"],
        jobs=options["jobs"],
        repo=options["repo"],
        store=shared.arguments if shared else (),
    )
    machine = this_offers("this machine", matrix, paths.root, Store(paths.cache), options["memory"])
    return stack.enter_context(LocalExecutor(site, machine)), None


def _print(came: Sequence[Came], paths: Paths) -> None:
    from rich.console import Console

    from cpuwheels.core.progress import clock
    from cpuwheels.core.tables import Column, Table

    table = Table(
        (Column("target"), Column("source"), Column("job"), Column("state"), Column("time", right=True), Column("by"))
    )
    for one in came:
        done = one.done
        table.add_row(
            one.job.target,
            one.job.source[:12],
            one.job.kind,
            one.state,
            clock(done.seconds) if done and done.seconds else "",
            done.by if done else "",
        )
    table.print(Console(highlight=False))
    for one in came:
        if one.job.kind == "wheel" and one.done and one.state in {"there", "done"}:
            print(paths.dist / one.done.folder / one.done.wheel)
