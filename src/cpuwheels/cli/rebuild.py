"""Commands for strangers: build a published wheel again and compare it, and keep all that it needs."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.index_place import READ, index_option, web_address
from cpuwheels.cli.provenance import TrustOptions, signing_of, trust_of, trust_options
from cpuwheels.cli.ranges import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.rebuild.preparation import WheelChoice
    from cpuwheels.rebuild.session import RebuildOptions

_PATH = click.Path(path_type=Path)


def _wheel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which wheel is meant, and what is believed of it."""
    options: list[Callable[..., Any]] = [
        index_option(f"{READ}; WHEEL is then a version, or a commit's hash, that it has."),
        click.option("--target", help="Target id, where an index has several (default: this machine's own)."),
        click.option(
            "--cpuwheels-repo",
            "repositories",
            multiple=True,
            metavar="PLACE",
            help="A clone or an address of cpuwheels that you trust; may be repeated.",
        ),
        click.option(
            "--cpuwheels", "commit", metavar="COMMIT", help="The cpuwheels that built it, if nothing else says it."
        ),
        trust_options,
    ]
    for option in reversed(options):
        command = option(command)
    return command


_MIRROR = click.option(
    "--mirror", type=_PATH, metavar="FOLDER", help="Take everything from this mirror, with the network closed."
)


class _WheelOptions(TrustOptions):
    """Which wheel is meant, and what is believed of it, as click names the options."""

    index: str | None
    target: str | None
    repositories: tuple[str, ...]
    commit: str | None


@click.command()
@click.argument("wheel", required=False)
@_wheel_options
@_MIRROR
@click.option(
    "--newest",
    type=click.IntRange(1),
    metavar="N",
    help="Rebuild what is new among the N newest wheels of --index, and publish what comes of it in --site.",
)
@click.option("--site", type=_PATH, help="With --newest: folder that you publish (default: dist/rebuild-site).")
@click.option("--hours", type=TimeLimit(1), help="With --newest: begin no rebuild after this time.")
@click.option("--again", is_flag=True, help="With --newest: also what was rebuilt before, or failed too often.")
@click.option("--key", help="Sign the statement with a private key: its file.")
@click.option("--public-key", type=_PATH, help="File of its public key (default: the private key's with .pub).")
@click.option("--rebuilder", metavar="URI", help="Who you are, as the statement names you.")
@click.option("--out", type=_PATH, help="Folder of statement and report (default: below dist/rebuilds/).")
@without_credentials
@pass_paths
def rebuild(
    paths: Paths,
    /,
    wheel: str | None,
    mirror: Path | None,
    key: str | None,
    public_key: Path | None,
    rebuilder: str | None,
    out: Path | None,
    newest: int | None,
    site: Path | None,
    hours: float | None,
    again: bool,
    **given: Unpack[_WheelOptions],
) -> None:
    """Build a published WHEEL again from what it says of itself, and compare every byte.

    WHEEL is a file, the address of one or of a page of an index, or with --index a version or a commit of vLLM. With
    --newest in its place, all that is new in --index is rebuilt.
    """
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.rebuild.session import RebuildOptions
    from cpuwheels.rebuild.statement import LOCAL_REBUILDER

    _check_mode(wheel, newest, given["index"], out, site_options=bool(site or hours or again))
    signing = (
        signing_of({"key": key, "public_key": public_key, "keyless": False, "trust_config": None})
        if key or public_key
        else None
    )
    matrix, reporter = load_matrix(paths.matrix), Reporter("rebuild")
    with _index(given) as index:
        options = RebuildOptions(
            choice=_choice(wheel or "", index, given),
            rebuilder=_uri(rebuilder) if rebuilder else LOCAL_REBUILDER,
            signing=signing,
            out=out.resolve() if out else None,
            mirror=mirror,
        )
        if newest is None:
            _rebuild_one(paths, matrix, _target(matrix, given["target"]), options, reporter)
            return
        from rich.console import Console

        from cpuwheels.rebuild.site.round import RoundOptions, outcome_table, rebuild_newest, require_all

        place = (site or paths.dist / "rebuild-site").expanduser().resolve()
        name = None if given["target"] is None else matrix.target(given["target"]).id
        wanted = RoundOptions(str(index), newest, options, place, name, hours, again)
        outcomes = rebuild_newest(paths, matrix, _target(matrix, None), wanted, reporter)
    outcome_table(outcomes).print(Console(stderr=True))
    print(place)
    require_all(outcomes, place)


def _check_mode(
    wheel: str | None, newest: int | None, index: str | None, out: Path | None, *, site_options: bool
) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: They are given.
    """
    from cpuwheels.core.errors import UsageError

    if (wheel is None) == (newest is None):
        both = wheel is not None
        raise UsageError(
            "either a WHEEL is rebuilt or what is new" if both else "nothing says what to rebuild",
            where="rebuild",
            next_step="leave out WHEEL or --newest" if both else "give a WHEEL, or --newest N and --index",
        )
    if newest is None and site_options:
        raise UsageError("there is a WHEEL", where="--site, --hours, --again", next_step="give them with --newest only")
    if newest is not None and index is None:
        raise UsageError("nothing says where what is new is", where="--newest", next_step="name it with --index")
    if newest is not None and out is not None:
        raise UsageError("each rebuild has its folder below --site", where="--out", next_step="leave it out")


def _rebuild_one(paths: Paths, matrix: Matrix, target: Target, options: RebuildOptions, reporter: Reporter) -> None:
    """Rebuild a wheel, print what came of it, and end with an error unless it has the same bytes."""
    from cpuwheels.core.text import printable
    from cpuwheels.rebuild.build import BuildFailedError
    from cpuwheels.rebuild.report import terminal_lines
    from cpuwheels.rebuild.session import rebuild as rebuild_wheel
    from cpuwheels.rebuild.session import require_same

    try:
        result, folder = rebuild_wheel(paths, matrix, target, options, reporter)
    except BuildFailedError as error:
        sys.exit(error.status)
    lines = [printable(line) for line in terminal_lines(result)]
    if result.reproduced:
        reporter.summary(lines)
    else:
        for line in lines[1:]:
            reporter.info(line.strip())
    print(folder)
    require_same(result, folder)


@click.command()
@click.argument("folder", type=_PATH)
@click.argument("wheels", nargs=-1, required=True, metavar="WHEEL...")
@_wheel_options
@without_credentials
@pass_paths
def mirror(paths: Paths, /, folder: Path, wheels: tuple[str, ...], **given: Unpack[_WheelOptions]) -> None:
    """Keep all that WHEELs are built from in FOLDER, so that they can be built without a network.

    Each WHEEL is a file, the address of one or of a page of an index, or with --index a version or a commit of vLLM.
    """
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.text import counted
    from cpuwheels.core.units import format_size
    from cpuwheels.rebuild.mirror.keep import keep_wheels

    matrix, reporter = load_matrix(paths.matrix), Reporter("mirror")
    place = folder.expanduser().resolve()
    with _index(given) as index:
        choices = [_choice(wheel, index, given) for wheel in wheels]
        kept = keep_wheels(paths, matrix, _target(matrix, given["target"]), place, choices, reporter)
    size = format_size(sum(one.size for one in kept.files))
    reporter.info(f"{counted(len(kept.files), 'file')}, {size}, for {counted(len(kept.wheels), 'wheel')}")
    print(place)


def _index(given: _WheelOptions) -> AbstractContextManager[str | None]:
    """Return a context with the address of the index that is given, if one is."""
    return contextlib.nullcontext() if given["index"] is None else web_address(given["index"])


def _choice(wheel: str, index: str | None, given: _WheelOptions) -> WheelChoice:
    from cpuwheels.rebuild.preparation import WheelChoice

    trusted: TrustOptions = {
        "trusted_keys": given["trusted_keys"],
        "identity": given["identity"],
        "issuer": given["issuer"],
        "trust_config": given["trust_config"],
    }
    named = bool(trusted["trusted_keys"] or trusted["identity"] or trusted["issuer"])
    trust = trust_of(trusted) if named else None
    called = (index, given["index"]) if index and given["index"] else None
    return WheelChoice(wheel, index, given["commit"], given["repositories"], trust, called)


def _target(matrix: Matrix, name: str | None) -> Target:
    from cpuwheels.config.host import default_target

    return matrix.target(name) if name else default_target(matrix)


def _uri(text: str) -> str:
    from pydantic import TypeAdapter, ValidationError

    from cpuwheels.core.errors import UsageError
    from cpuwheels.pipeline.in_toto import Uri

    try:
        found: str = TypeAdapter(Uri).validate_python(text)
    except ValidationError as error:
        raise UsageError(
            f"{text!r:.200} is no URI", where="--rebuilder", next_step="give one, such as https://rebuilds.example.org"
        ) from error
    return found
