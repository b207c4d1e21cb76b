"""The command line of a bisection."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import click

from cpuwheels.cli.build import UNSANDBOXED
from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.farm_options import open_farm, uses_farm
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.index_place import READ, index_option, web_address
from cpuwheels.cli.ranges import SizeText, TimeLimit
from cpuwheels.cli.shared_store import takes_from_store
from cpuwheels.config.options import SLOWER, BisectOptions, Level, Regress, ToolchainChoice

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths
    from cpuwheels.farm.remote import RemoteExecutor


class _Bisect(TypedDict):
    """The options of a bisection, as click names them."""

    good: str
    bad: str
    run: str | None
    parity: str | None
    bench: str | None
    serve: str | None
    prompt: str | None
    regress: Regress | None
    slower: float | None
    library: str
    level: Level
    branch: str
    all_parents: bool
    jobs: int
    timeout: float | None
    env: tuple[str, ...]
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    unconfined: bool
    requirements: bool
    allow_sdists: bool
    log: Path | None
    out: Path | None
    repo: Path | None
    index: str | None
    kernels_from: str | None
    toolchain: ToolchainChoice
    memory: str | None
    locked: bool
    allow_unsandboxed: bool
    patched_kernels: bool


_PATH = click.Path(path_type=Path)
_ABOVE_ONE = click.FloatRange(min=1, min_open=True)
_TOOLCHAINS = click.Choice(["auto", "host", "debian"])
_REGRESS = click.Choice(list(get_args(Regress)))
_LEVELS = click.Choice(get_args(Level))


@click.command()
@click.option("--target", help="Target id (default: this machine's own).")
@click.option("--good", required=True, help="A commit before the change: hash, tag, branch, version or date.")
@click.option("--bad", default="", help="A commit after it (default: the newest of --branch).")
@click.option("--run", help="Shell command that decides: 0 good, 125 skip, other codes up to 127 bad.")
@click.option("--parity", help="Operator whose results decide.")
@click.option("--bench", help="Operator whose speed decides, compared with the good end's.")
@click.option("--serve", metavar="MODEL|SCRIPT", help="Model whose answers decide, or a script that asks a server.")
@click.option("--prompt", metavar="TEXT", help="Text that a server is asked; you see what it answers, and decide.")
@click.option("--regress", type=_REGRESS, help="Which change is looked for; with --prompt a program decides then.")
@click.option(
    "--slower",
    type=_ABOVE_ONE,
    help=f"From how many times the good end's time a commit is bad; {SLOWER:g} with --bench. "
    "With --serve speed decides only if this is given.",
)
@click.option("--library", default="_C", show_default=True, help="With --bench: the kernel library.")
@click.option("--level", type=_LEVELS, default="smoke", show_default=True, help="With --parity: how many cases.")
@click.option("--branch", default="main", show_default=True, help="Where dates, and the newest commit, are looked up.")
@click.option("--all-parents", is_flag=True, help="Search merged commits too; otherwise a merge is one change.")
@click.option(
    "--commits-at-once",
    "jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Commits tested at once.",
)
@click.option(
    "--timeout", type=TimeLimit(3600), help="Seconds after which the command is ended and counts as bad; 48 h at most."
)
@click.option(
    "--pass-env",
    "env",
    metavar="NAME",
    multiple=True,
    help="Variable of yours that the command or script gets; may be repeated.",
)
@click.option(
    "--readable", type=_PATH, multiple=True, help="What the command or script may read, too; may be repeated."
)
@click.option("--writable", type=_PATH, multiple=True, help="What the command or script may write; may be repeated.")
@click.option("--unconfined", is_flag=True, help="Run the command or script with your network and all of your files.")
@click.option("--no-requirements", "requirements", flag_value=False, default=True, help="Install torch and the wheel.")
@click.option("--allow-sdists", is_flag=True, help="Also install requirements that have no wheel; runs their code.")
@click.option("--log", type=_PATH, help="Verdicts to accept: a state.json, or what git bisect log wrote.")
@click.option("--out", type=_PATH, help="Folder of the bisection (default: below dist/bisect/).")
@click.option("--repo", type=_PATH, help="Clone of vLLM (default: the repositories of matrix.yaml).")
@index_option(f"{READ}, with the layout of wheels.vllm.ai; it is asked first.")
@click.option("--kernels-from", metavar="PLACE", help="Wheels whose kernels commits with the same kernels reuse.")
@click.option("--toolchain", type=_TOOLCHAINS, default="auto", show_default=True, help="As for a build.")
@click.option("--memory", type=SizeText(), help="Memory cap of the builds, such as 8G.")
@click.option("--locked", is_flag=True, help="Refuse fallbacks and inputs that are not pinned by content.")
@UNSANDBOXED
@click.option("--patched-kernels", is_flag=True, help="Fix faults of upstream's kernels, as in published wheels.")
@uses_farm
@without_credentials
@pass_paths
@takes_from_store
def bisect(
    paths: Paths, /, target: str | None, farm: str | None, farm_keys: Path | None, **options: Unpack[_Bisect]
) -> None:
    """Find the commit that made a target's wheel bad.

    You are asked for each verdict unless --run, --parity, --bench or --serve decides.
    """
    from rich.console import Console

    from cpuwheels.bisect.banner import print_banner
    from cpuwheels.bisect.bisection import run_bisection
    from cpuwheels.bisect.report import probe_table, write_bisection
    from cpuwheels.config.host import default_target
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter

    matrix = load_matrix(paths.matrix)
    name = target or default_target(matrix).id
    reporter, console = Reporter(name), Console()
    with contextlib.ExitStack() as served:
        if options["index"]:
            options["index"] = served.enter_context(web_address(options["index"]))
        executor = served.enter_context(_opened(paths, farm, farm_keys, options)) if farm else None
        outcome = run_bisection(paths, matrix, name, BisectOptions(**options), reporter, executor)
    reports = write_bisection(outcome)
    probe_table(outcome).print(console)
    print_banner(outcome, console)
    reporter.info(f"reports: {', '.join(str(path) for path in reports)}")


def _opened(paths: Paths, farm: str, keys: Path | None, options: _Bisect) -> RemoteExecutor:
    """Return the farm that makes the wheels.

    Raises:
        UsageError: An option is about wheels that this machine makes, or the farm's own.
        FarmError: The farm does not answer.
    """
    from cpuwheels.core.errors import UsageError

    if wrong := [name for name in ("memory", "kernels_from") if options.get(name)]:
        raise UsageError(
            "the wheels are made by a farm, whose workers have settings of their own",
            where=f"--{wrong[0].replace('_', '-')}",
            next_step="leave it out, or make the wheels on this machine without --farm",
        )
    return open_farm(paths, farm, keys)
