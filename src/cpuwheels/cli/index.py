"""Commands of the wheel index: publish into it, serve it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.given_values import WHEEL
from cpuwheels.cli.index_place import WRITTEN, index_folder, index_option
from cpuwheels.cli.provenance import TrustOptions, trust_of, trust_options

if TYPE_CHECKING:
    from cpuwheels.attestation.verify import Trust
    from cpuwheels.cli.folders import Folders
    from cpuwheels.config.paths import Paths

FOLDER = "index"
"""The index's folder below the output folder, if no other place is named."""

_PATH = click.Path(path_type=Path)
LOCKED = click.option(
    "--locked/--no-locked",
    default=True,
    show_default=True,
    help="Only wheels for which nothing was fetched that is not listed with its digest.",
)
ADDRESS = click.option("--address", help="URL at which users reach the index; locks then name wheels by their URLs.")


@click.command()
@click.argument("target")
@click.argument("wheel", type=WHEEL)
@pass_paths
def pylock(paths: Paths, target: str, wheel: Path) -> None:
    """Resolve what WHEEL of TARGET requires, and write its pylock.toml next to it, as a locked build does not."""
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import BuildEnvironmentError
    from cpuwheels.pipeline.lock_wheel import lock_wheel

    reporter = Reporter(target)
    written = lock_wheel(paths, load_matrix(paths.matrix), target, wheel, reporter)
    if written is None:
        raise BuildEnvironmentError(reporter.announcements[-1], where=wheel, next_step="make the indexes reachable")
    print(written)


@click.command()
@click.argument("wheel", type=WHEEL)
@index_option(WRITTEN)
@click.option("--commit", help="Full hash of its source, for a wheel that does not contain it.")
@click.option("--target", help="Target id, for a wheel that does not contain it.")
@click.option("--subject", default="", help="First line of the commit's message, for the index's pages.")
@click.option("--nightly", is_flag=True, help="Make it the newest of its target.")
@LOCKED
@ADDRESS
@trust_options
@pass_paths
def publish(
    paths: Paths,
    wheel: Path,
    index: str | None,
    commit: str | None,
    target: str | None,
    subject: str,
    nightly: bool,
    locked: bool,
    address: str | None,
    **trusted: Unpack[TrustOptions],
) -> None:
    """Add WHEEL, with the lock, the reports and the provenance next to it, to the index."""
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.units import format_size
    from cpuwheels.index.address import open_bucket
    from cpuwheels.index.publish_wheel import publish_wheel

    bucket = open_bucket(index or str(paths.dist / FOLDER))
    published = publish_wheel(
        bucket,
        wheel,
        load_matrix(paths.matrix),
        commit=commit,
        target=target,
        subject=subject,
        nightly=nightly,
        locked=locked,
        address=address,
        trust=_trust(trusted),
    )
    entry, listed = published.entry, ", ".join(published.views)
    state = "was damaged, and is whole again" if published.healed else "was there already"
    if published.new:
        state = "published"
    print(f"{entry.filename}: {state} in {bucket.name} ({format_size(entry.size)}, parity {entry.parity}); in {listed}")


def _trust(given: TrustOptions) -> Trust | None:
    """Return whose signatures count; None if nobody is named, so that nothing that verifies is needed."""
    named = given["trusted_keys"] or given["identity"] or given["issuer"]
    return trust_of(given) if named else None


@click.command("serve-index")
@index_option("Index: its folder (default: dist/index).")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port on this machine's loopback address.",
)
@click.pass_obj
def serve_index(folders: Folders, index: str | None, port: int) -> None:
    """Serve the index on this machine, for testing and for bisecting."""
    from cpuwheels.index.serve import serve

    folder = index_folder(index or str(folders.output() / FOLDER))

    def ready(address: str) -> None:
        click.echo(f"the index in {folder}, until Ctrl-C", err=True)
        print(address, flush=True)

    serve(folder, port, ready)
