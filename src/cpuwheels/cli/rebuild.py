"""The command for strangers: build a published wheel again, here or on a farm, and compare it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.farm_options import PRIORITY, WORKERS_OWN, open_farm, refuse_alone, uses_farm
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.provenance import signing_of
from cpuwheels.cli.published_wheel import WheelOptions, choice_of, index_of, target_of, wheel_options
from cpuwheels.cli.ranges import JobCount, SizeText, TimeLimit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.executor import Executor
    from cpuwheels.rebuild.session import RebuildOptions
    from cpuwheels.rebuild.site.round import Rebuilder

_PATH = click.Path(path_type=Path)


_MIRROR = click.option(
    "--mirror", type=_PATH, metavar="FOLDER", help="Take everything from this mirror, with the network closed."
)


@click.command()
@click.argument("wheel", required=False)
@wheel_options
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
@click.option("--memory", type=SizeText(), help="Memory cap, as for a build.")
@click.option("--jobs", type=JobCount(), help="Compilations at once, as for a build.")
@uses_farm
@PRIORITY
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
    memory: str | None,
    jobs: str | None,
    farm: str | None,
    farm_keys: Path | None,
    priority: int,
    **given: Unpack[WheelOptions],
) -> None:
    """Build a published WHEEL again from what it says of itself, and compare every byte.

    WHEEL is a file, the address of one or of a page of an index, or with --index a version or a commit of vLLM. With
    --newest in its place, all that is new in --index is rebuilt.
    """
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.rebuild.session import RebuildOptions
    from cpuwheels.rebuild.statement import LOCAL_REBUILDER

    _check_mode(wheel, newest, given["index"], out, site_options=bool(site or hours or again or farm))
    refuse_alone(farm, priority=priority)
    if farm is not None:
        _require_sendable({**given, "mirror": mirror, "memory": memory, "jobs": jobs})
    signing = (
        signing_of({"key": key, "public_key": public_key, "keyless": False, "trust_config": None})
        if key or public_key
        else None
    )
    matrix, reporter = load_matrix(paths.matrix), Reporter("rebuild")
    with index_of(given) as index:
        options = RebuildOptions(
            choice=choice_of(wheel or "", index, given),
            rebuilder=_uri(rebuilder) if rebuilder else LOCAL_REBUILDER,
            signing=signing,
            out=out.resolve() if out else None,
            mirror=mirror,
            memory=memory,
            jobs=jobs,
        )
        if newest is None:
            _rebuild_one(paths, matrix, target_of(matrix, given["target"]), options, reporter)
            return
        from rich.console import Console

        from cpuwheels.rebuild.site.round import RoundOptions, ThisMachine, outcome_table, rebuild_newest, require_all

        place = (site or paths.dist / "rebuild-site").expanduser().resolve()
        name = None if given["target"] is None else matrix.target(given["target"]).id
        wanted = RoundOptions(str(index), newest, place, name, hours, again)
        with contextlib.ExitStack() as stack:
            maker: Rebuilder = ThisMachine(paths, matrix, target_of(matrix, None), options, reporter)
            if farm is not None:
                executor = stack.enter_context(open_farm(paths, farm, farm_keys))
                maker = _on_farm(executor, paths, matrix, options, given, priority, reporter)
            outcomes = rebuild_newest(paths, matrix, wanted, maker, reporter)
    outcome_table(outcomes).print(Console(stderr=True))
    print(place)
    require_all(outcomes, place)


def _require_sendable(given: Mapping[str, object]) -> None:
    """Refuse options that mean files or places of this machine, which workers do not have.

    Raises:
        UsageError: One is given.
    """
    from cpuwheels.core.errors import UsageError

    files = ("trusted_keys", "trust_config", "mirror")
    if wrong := next((name for name in files if given[name]), None):
        raise UsageError(
            "the workers of a farm do not have the files of this machine",
            where=f"--{wrong.removesuffix('s').replace('_', '-')}",
            next_step="leave it out, name who signs with --identity and --issuer, or rebuild here without --farm",
        )
    if wrong := next((name for name in ("memory", "jobs") if given[name]), None):
        raise UsageError(WORKERS_OWN, where=f"--{wrong}", next_step="give it to cpuwheels farm")
    if not str(given["index"]).startswith(("http://", "https://")):
        raise UsageError(
            "the workers of a farm cannot read a folder of this machine",
            where="--index",
            next_step="give the address at which the index is read",
        )


def _on_farm(
    executor: Executor,
    paths: Paths,
    matrix: Matrix,
    options: RebuildOptions,
    given: WheelOptions,
    priority: int,
    reporter: Reporter,
) -> Rebuilder:
    """Return who has wheels rebuilt by a farm; statements are signed here."""
    from cpuwheels.farm.estimate import estimates
    from cpuwheels.farm.graph import RANK
    from cpuwheels.farm.job import project_identity
    from cpuwheels.farm.rebuilds import FarmRebuilder

    named = {
        "--cpuwheels": given["commit"],
        "--identity": given["identity"],
        "--issuer": given["issuer"],
        "--rebuilder": options.rebuilder,
    }
    words = [part for name, value in named.items() if value for part in (name, value)]
    words += [part for place in given["repositories"] for part in ("--cpuwheels-repo", place)]
    return FarmRebuilder(
        executor,
        project_identity(paths),
        words,
        options.rebuilder,
        estimates(paths, matrix, {}),
        reporter,
        options.signing,
        priority * RANK,
    )


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
        names = "--site, --hours, --again, --farm"
        raise UsageError("there is a WHEEL", where=names, next_step="give them with --newest only")
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
