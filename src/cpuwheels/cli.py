"""The command line: options in, one message and one exit code out."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack

import click
from rich.console import Console

from cpuwheels import commands
from cpuwheels.cli_bisect import bisect
from cpuwheels.cli_index import check_index, matrix_, nightly, publish, serve_index
from cpuwheels.cli_wheel import check, kernel_bench, serve
from cpuwheels.config import Places, find_root
from cpuwheels.errors import CpuwheelsError, InterruptedError_, UsageError
from cpuwheels.options import BuildOptions, CacheChoice, ToolchainChoice
from cpuwheels.storage import storage_errors
from cpuwheels.store import default_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--root", type=click.Path(path_type=Path), help="The project's folder, with matrix.yaml.")
@click.option("--dist", type=click.Path(path_type=Path), help="Where finished wheels appear (default: dist/).")
@click.option("--cache", type=click.Path(path_type=Path), help="The stores (default: CPUWHEELS_CACHE).")
@click.pass_context
def cli(context: click.Context, root: Path | None, dist: Path | None, cache: Path | None) -> None:
    """Build tested, reproducible CPU wheels of vLLM."""
    project = root.resolve() if root else find_root(Path.cwd())
    context.obj = Places(
        root=project,
        cache=cache.resolve() if cache else default_root(),
        dist=dist.resolve() if dist else project / "dist",
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
    debug_symbols: bool
    compiler_cache: CacheChoice
    kernels_from: str | None


def build_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe a build."""
    for option in reversed(
        [
            click.option("--source", help="vLLM version, path of a tree, or commit by hash, tag or branch."),
            click.option("--repo", type=click.Path(path_type=Path), help="Clone of vLLM to look --source up in."),
            click.option("--sha256", help="Digest of the sdist, for a version that matrix.yaml does not pin."),
            click.option(
                "--toolchain", type=click.Choice(["auto", "host", "debian"]), default="auto", show_default=True,
                help="A host compiler that passes the target's gate, else the pinned one from Debian.",
            ),
            click.option("--memory", help="Memory cap, such as 8G (default: what the machine or cgroup has)."),
            click.option("--jobs", help="Upper bound for compilations at once; MAX_JOBS is another."),
            click.option("--locked", is_flag=True, help="Refuse alternates and inputs not pinned by content."),
            click.option("--debug-symbols", is_flag=True, help="Write separate .debug files."),
            click.option(
                "--compiler-cache", type=click.Choice(["auto", "off"]), default="auto", show_default=True,
                help="Objects of earlier builds, if the compiler would read the same files; off compiles all.",
            ),
            click.option(
                "--kernels-from", metavar="PLACE",
                help="Compile nothing: take the kernels of a wheel (file, folder, URL#sha256=… or index).",
            ),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


@cli.command()
@click.argument("target")
@build_options
@click.option("--no-closing", "closing", flag_value=False, default=True, hidden=True)  # for `verify`
@click.pass_obj
def build(places: Places, /, target: str, closing: bool, **options: Unpack[_Options]) -> None:
    """Build the wheel of TARGET."""
    commands.build(places, target, BuildOptions(**options), closing=closing)


@cli.command()
@click.argument("target")
@build_options
@click.pass_obj
def verify(places: Places, /, target: str, **options: Unpack[_Options]) -> None:
    """Build TARGET again, elsewhere and differently, and compare the wheels byte by byte."""
    commands.verify(places, target, BuildOptions(**options))


@cli.command()
@click.argument("checkout", type=click.Path(path_type=Path))
@click.option("--target", help="Target id (default: this machine's own).")
@click.option(
    "--python", type=click.Path(path_type=Path), help="Interpreter to install into (default: CHECKOUT/.venv)."
)
@click.option("--no-requirements", "requirements", flag_value=False, default=True, help="Install torch and vLLM alone.")
@build_options
@click.pass_obj
def develop(
    places: Places,
    /,
    checkout: Path,
    target: str | None,
    python: Path | None,
    requirements: bool,
    **options: Unpack[_Options],
) -> None:
    """Install the vLLM CHECKOUT editable, with kernels that fit it."""
    commands.develop(places, target, checkout, BuildOptions(**options), python=python, requirements=requirements)


@cli.command()
@click.argument("target", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@click.pass_obj
def doctor(places: Places, target: str | None, as_json: bool) -> None:
    """Check everything a build of TARGET needs before it starts."""
    sys.exit(commands.diagnose(places, target, as_json=as_json))


@cli.command()
@click.option("--check", "only_check", is_flag=True, help="Change nothing; fail if a file is stale.")
@click.pass_obj
def schema(places: Places, only_check: bool) -> None:
    """Write the JSON schemas and reference pages generated from the models."""
    commands.schema(places, only_check=only_check)


@cli.command()
@click.pass_obj
def lock(places: Places) -> None:
    """Resolve the Debian package locks anew."""
    commands.lock(places)


for _command in (check, serve, kernel_bench, bisect, nightly, matrix_, publish, check_index, serve_index):
    cli.add_command(_command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0, or the code of the error's class (docs/reference/exit-codes.md)."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        with _signals_as_interrupt(), storage_errors(Path.cwd()):
            cli.main(args=arguments, prog_name="cpuwheels", standalone_mode=False)
    except CpuwheelsError as error:
        console.print(f"error: {error}", style="red", markup=False)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(UsageError.exit_code)
    except (KeyboardInterrupt, click.Abort):
        stopped = InterruptedError_("stopped", next_step="run the same command again; it goes on from what is finished")
        console.print(f"\n{stopped}", style="yellow", markup=False)
        sys.exit(stopped.exit_code)
    sys.exit(0)


@contextlib.contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """Let a termination or hang-up signal end the run as tidily as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
