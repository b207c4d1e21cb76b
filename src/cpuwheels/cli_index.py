"""The command line of the wheel index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from cpuwheels import commands_index
from cpuwheels.options import Level, NightlyOptions

if TYPE_CHECKING:
    from cpuwheels.config import Places

_PATH = click.Path(path_type=Path)
_INDEX = click.option("--index", help="Folder or s3://bucket/prefix of the index (default: dist/index).")


@click.command()
@click.argument("wheel", type=_PATH)
@_INDEX
@click.option("--commit", help="Full hash of its source, for a wheel that does not say it.")
@click.option("--target", help="Target id, for a wheel that does not say it.")
@click.option("--nightly", is_flag=True, help="Make it the newest of its target.")
@click.pass_obj
def publish(
    places: Places, wheel: Path, index: str | None, commit: str | None, target: str | None, nightly: bool
) -> None:
    """Add WHEEL, with the reports beside it, to the index."""
    commands_index.publish(places, wheel, index, commit=commit, target=target, nightly=nightly)


class _Nightly(TypedDict):
    """The options of a nightly job, as click names them."""

    targets: tuple[str, ...]
    since: str | None
    release: str | None
    latest_release: bool
    branch: str | None
    repo: Path | None
    level: Level | None
    hours: float | None
    memory: str | None
    locked: bool


@click.command()
@_INDEX
@click.option("--target", "targets", multiple=True, help="Only this target; may be repeated.")
@click.option("--since", help="Build every commit after this one, the newest first.")
@click.option("--release", help="Build this version in place of the newest commit.")
@click.option("--latest-release", is_flag=True, help="Build the newest release's commit in place of the newest one.")
@click.option("--branch", help="Whose newest commit is built (default: matrix.yaml).")
@click.option("--repo", type=_PATH, help="Clone of vLLM (default: the repositories of matrix.yaml).")
@click.option("--level", type=click.Choice(["smoke", "full", "deep"]), help="Parity's cases (default: matrix.yaml).")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Begin nothing more after this time.")
@click.option("--memory", help="Memory cap of the builds, such as 8G.")
@click.option("--locked", is_flag=True, help="Refuse alternates and inputs not pinned by content.")
@click.pass_obj
def nightly(places: Places, /, index: str | None, **options: Unpack[_Nightly]) -> None:
    """Build, try and publish the newest wheels, and take out the oldest."""
    commands_index.nightly(places, index, NightlyOptions(**options))


@click.command("matrix")
@click.option("--github", is_flag=True, help="As GitHub Actions takes it: one line of JSON.")
@click.pass_obj
def matrix_(places: Places, github: bool) -> None:
    """Show the targets that a nightly job builds, and where."""
    commands_index.show_matrix(places, github=github)


@click.command("check-index")
@_INDEX
@click.option("--repair", is_flag=True, help="Write pages anew that do not say what their wheels are.")
@click.pass_obj
def check_index(places: Places, index: str | None, repair: bool) -> None:
    """Verify everything in the index: links, digests, metadata."""
    commands_index.check(places, index, repair=repair)


@click.command("serve-index")
@click.option("--index", type=_PATH, help="Folder of the index (default: dist/index).")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="On this machine alone.")
@click.pass_obj
def serve_index(places: Places, index: Path | None, port: int) -> None:
    """Serve the index on this machine, for trying and for bisecting."""
    commands_index.serve(places, index, port)
