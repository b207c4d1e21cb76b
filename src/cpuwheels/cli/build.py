"""Commands that build: a wheel, the same wheel a second time, and an editable checkout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.ranges import JobCount, SizeText
from cpuwheels.cli.shared_store import takes_from_store
from cpuwheels.config.options import BuildOptions, CacheChoice, ToolchainChoice

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.config.paths import Paths
    from cpuwheels.pipeline.built_wheel import BuiltWheel


UNSANDBOXED = click.option(
    "--allow-unsandboxed",
    is_flag=True,
    help="Run upstream's code unconfined if nothing on this machine can confine it.",
)


class _Options(TypedDict):
    """The options of a build, as click names them."""

    source: str | None
    repo: Path | None
    sha256: str | None
    toolchain: ToolchainChoice
    memory: str | None
    jobs: str | None
    locked: bool
    allow_fallbacks: bool
    debug_symbols: bool
    compiler_cache: CacheChoice
    kernels_from: str | None
    allow_unsandboxed: bool
    upstream_kernels: bool
    upstream_speed: bool
    sandbox_required: bool


def build_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe a build."""
    for option in reversed(
        [
            click.option("--source", help="vLLM version, path of a tree, or commit by hash, tag or branch."),
            click.option("--repo", type=click.Path(path_type=Path), help="Clone of vLLM to look --source up in."),
            click.option("--sha256", help="Digest of the sdist, for a version that matrix.yaml does not pin."),
            click.option(
                "--toolchain",
                type=click.Choice(["auto", "host", "debian"]),
                default="auto",
                show_default=True,
                help="A host compiler that meets the target's requirements, else the pinned one from Debian.",
            ),
            click.option(
                "--memory", type=SizeText(), help="Memory cap, such as 8G (default: what the machine or cgroup has)."
            ),
            click.option("--jobs", type=JobCount(), help="Upper bound for compilations at once; MAX_JOBS is another."),
            click.option("--locked", is_flag=True, help="Fetch only what is listed with its digest; refuse fallbacks."),
            click.option("--allow-fallbacks", is_flag=True, help="With --locked: use fallbacks that are listed."),
            click.option("--debug-symbols", is_flag=True, help="Write separate .debug files."),
            click.option(
                "--compiler-cache",
                type=click.Choice(["auto", "off"]),
                default="auto",
                show_default=True,
                help="Reuse objects of earlier builds if the compiler would read the same files; off compiles all.",
            ),
            click.option(
                "--kernels-from",
                metavar="PLACE",
                help="Compile nothing: use the kernels of a wheel (file, folder, URL#sha256=… or index).",
            ),
            UNSANDBOXED,
            click.option(
                "--upstream-kernels",
                is_flag=True,
                help="Leave upstream's kernels as they are: no patch that fixes a fault or is for speed is applied.",
            ),
            click.option(
                "--upstream-speed",
                is_flag=True,
                help="Leave upstream's kernels as fast as they are: no patch that is for speed is applied.",
            ),
            click.option("--sandbox-required", is_flag=True, hidden=True),  # for the second build of a nightly job
        ]
    ):
        command = option(command)
    return command


@click.command()
@click.argument("target")
@build_options
@click.option("--distribution", metavar="NAME", help="Also write the wheel under this project name, as PyPI takes it.")
@click.option(
    "--mirror",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Take everything from this mirror, with the network closed.",
)
@click.option("--no-summary", "summary", flag_value=False, default=True, hidden=True)  # for `verify`
@click.option("--no-check", "check", flag_value=False, default=True, hidden=True)  # for `bisect`
@click.option("--kernels-only", is_flag=True, hidden=True)  # for `batch`
@without_credentials
@pass_paths
@takes_from_store
def build(
    paths: Paths,
    /,
    target: str,
    distribution: str | None,
    mirror: Path | None,
    summary: bool,
    check: bool,
    kernels_only: bool,
    **options: Unpack[_Options],
) -> None:
    """Build the wheel of TARGET."""
    from cpuwheels.pipeline.distribution import check_name, redistribute

    if kernels_only:
        from cpuwheels.config.matrix import load_matrix
        from cpuwheels.core.console import Reporter
        from cpuwheels.pipeline.kernels_alone import build_kernels

        keys = build_kernels(paths, load_matrix(paths.matrix), target, BuildOptions(**options), Reporter(target))
        print(*filter(None, keys), sep="\n")
        return
    if distribution is not None:
        check_name(distribution)
    if mirror is not None:
        from cpuwheels.rebuild.mirror.build import build_closed

        more = ["--distribution", distribution] if distribution else []
        more += [*([] if summary else ["--no-summary"]), *([] if check else ["--no-check"])]
        sys.exit(build_closed(paths, target, BuildOptions(**options), mirror, more))
    finished = build_target(paths, target, BuildOptions(**options), summary=summary, check=check)
    if distribution is not None:
        print(redistribute(finished.path, distribution, finished.path.parent / distribution))


def _print_axes(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from cpuwheels.pipeline.variation.axes import AXES, DEFAULT

        for axis in AXES:
            click.echo(f"{axis.name:{max(len(one.name) for one in AXES)}}  {axis.about}")
        click.echo(f"without --vary: {', '.join(DEFAULT)}")
        context.exit()


@click.command()
@click.argument("target")
@build_options
@click.option("--vary", metavar="AXIS[,AXIS...]|all", help="What the second build has otherwise; see --list-axes.")
@click.option(
    "--list-axes",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_axes,
    help="Print what --vary can name, and what is varied without it.",
)
@without_credentials
@pass_paths
@takes_from_store
def verify(paths: Paths, /, target: str, vary: str | None, **options: Unpack[_Options]) -> None:
    """Build TARGET again in other circumstances, and compare the wheels byte by byte."""
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.pipeline.variation.axes import chosen_axes
    from cpuwheels.pipeline.variation.second_build import SecondBuildError
    from cpuwheels.pipeline.verify import verify_wheel
    from cpuwheels.verification.verified import VERIFY, require_reproduced

    axes = chosen_axes(vary)
    chosen, reporter = BuildOptions(**options), Reporter(target)
    first = build_target(paths, target, chosen, summary=False)
    try:
        verified = verify_wheel(paths, load_matrix(paths.matrix), target, chosen, first.path, axes, reporter)
    except SecondBuildError as error:
        sys.exit(error.status)
    verified.as_table().print(reporter.console)
    require_reproduced(verified, first.path.parent / VERIFY)
    reporter.info(verified.as_sentence())


@click.command()
@click.argument("checkout", type=click.Path(path_type=Path))
@click.option("--target", help="Target id (default: this machine's own).")
@click.option(
    "--python", type=click.Path(path_type=Path), help="Interpreter to install into (default: CHECKOUT/.venv)."
)
@click.option("--no-requirements", "requirements", flag_value=False, default=True, help="Install torch and vLLM alone.")
@build_options
@without_credentials
@pass_paths
@takes_from_store
def develop(
    paths: Paths,
    /,
    checkout: Path,
    target: str | None,
    python: Path | None,
    requirements: bool,
    **options: Unpack[_Options],
) -> None:
    """Install the vLLM CHECKOUT editable, with kernels that fit it."""
    from cpuwheels.config.host import default_target
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.pipeline.develop import develop as install_checkout

    matrix = load_matrix(paths.matrix)
    name = target or default_target(matrix).id
    reporter, chosen = Reporter(name), BuildOptions(**options)
    used = install_checkout(paths, matrix, name, checkout, chosen, reporter, python=python, requirements=requirements)
    reporter.info(f"{checkout} is installed; its Python files are used in place")
    print(used)


def build_target(
    paths: Paths, target: str, options: BuildOptions, *, summary: bool = True, check: bool = True
) -> BuiltWheel:
    """Build the wheel of a target and print where it is.

    Args:
        paths: Folders to read and write.
        target: Target id.
        options: What the user chose.
        summary: Whether to print also how to install the wheel and what to do next.
        check: Whether the wheel is installed and its libraries are loaded.
    """
    from cpuwheels.config.host import is_foreign
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.pipeline.build import build as build_wheel
    from cpuwheels.pipeline.summary import summary_lines

    reporter, matrix = Reporter(target), load_matrix(paths.matrix)
    finished = build_wheel(paths, matrix, target, options, reporter, check=check)
    print(finished.path, flush=True)
    if summary:
        wanted = matrix.target(target)
        lines = summary_lines(
            finished,
            wanted,
            reporter.announcements,
            foreign=is_foreign(wanted),
            here=Path.cwd(),
            width=reporter.console.width,
            places=paths.names,
        )
        reporter.summary(lines)
    else:
        reporter.info(f"sha256 {finished.sha256}")
    return finished
