"""The command line: options in, one message and one exit code out."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from cpuwheels.cli.batch import batch
from cpuwheels.cli.bisect import bisect
from cpuwheels.cli.build import build, develop, verify
from cpuwheels.cli.check_index import check_index, collect_rebuilds
from cpuwheels.cli.clean import clean
from cpuwheels.cli.clean_process import take_over
from cpuwheels.cli.completion import complete_values
from cpuwheels.cli.farm import farm
from cpuwheels.cli.folders import Folders, shared_options
from cpuwheels.cli.given_values import check_values
from cpuwheels.cli.image import image
from cpuwheels.cli.index import publish, pylock, serve_index
from cpuwheels.cli.mirror import mirror
from cpuwheels.cli.nightly import nightly
from cpuwheels.cli.project import doctor, lock, matrix, schema
from cpuwheels.cli.provenance import make_key, sign, verify_provenance
from cpuwheels.cli.rebuild import rebuild
from cpuwheels.cli.renamed import RenamedGroup, add_old_spellings
from cpuwheels.cli.serve_bench import serve_bench
from cpuwheels.cli.share import share
from cpuwheels.cli.test import compare, kernel_bench, parity, serve
from cpuwheels.cli.usage_errors import usage_error
from cpuwheels.core.errors import CpuwheelsError, StoppedError, UsageError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.verbosity import Verbosity, set_verbosity

if TYPE_CHECKING:
    from collections.abc import Iterator


def _print_version(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from cpuwheels.config.installation import version_text

        click.echo(f"cpuwheels {version_text()}")
        context.exit()


@click.group(cls=RenamedGroup, context_settings={"help_option_names": ["-h", "--help"]}, params=shared_options())
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version, and a checkout's commit.",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Build tested, reproducible CPU wheels of vLLM."""
    context.ensure_object(Folders)


check_values(cli.params)
for _command in (
    build,
    batch,
    verify,
    rebuild,
    mirror,
    develop,
    parity,
    serve,
    kernel_bench,
    compare,
    serve_bench,
    image,
    bisect,
    nightly,
    pylock,
    publish,
    collect_rebuilds,
    check_index,
    serve_index,
    make_key,
    sign,
    verify_provenance,
    matrix,
    doctor,
    clean,
    share,
    farm,
    schema,
    lock,
):
    add_old_spellings(_command)
    _command.params += shared_options()
    check_values(_command.params)
    complete_values(_command)
    cli.add_command(_command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0, or the code of the error's class (docs/reference/exit-codes.md)."""
    set_verbosity(Verbosity.NORMAL)
    anew = arguments is None and take_over(os.environ)
    folders = Folders(may_start_anew=arguments is None and not anew, is_started_anew=anew)
    try:
        with _signals_as_interrupt(), storage_errors(Path.cwd()):
            cli.main(args=arguments, prog_name="cpuwheels", standalone_mode=False, obj=folders)
    except StoppedError as stopped:
        _stop(stopped)
    except CpuwheelsError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(UsageError.exit_code)
    except click.ClickException as error:
        _print_error(usage_error(error))
        sys.exit(UsageError.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _stop(StoppedError())
    sys.exit(0)


def _stop(stopped: StoppedError) -> NoReturn:
    """Exit as after Ctrl-C, which is no fault."""
    click.echo(err=True)
    _print_error(stopped, head="", style="bold yellow")
    sys.exit(stopped.exit_code)


def _print_error(error: CpuwheelsError, **styles: str) -> None:
    from rich.console import Console

    from cpuwheels.core.error_lines import print_error

    print_error(Console(stderr=True, highlight=False, soft_wrap=True), error, **styles)


@contextlib.contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """Make a termination or hang-up signal end the run as cleanly as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
