"""Commands of the wheel index: publish into it, fill it nightly, serve it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import click

from cpuwheels.cli.build import UNSANDBOXED
from cpuwheels.cli.clean_process import note_ancestors, without_credentials
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.given_values import WHEEL
from cpuwheels.cli.index_place import WRITTEN, index_folder, index_option
from cpuwheels.cli.provenance import SigningOptions, TrustOptions, signing_of, signing_options, trust_of, trust_options
from cpuwheels.cli.ranges import SizeText, TimeLimit
from cpuwheels.cli.shared_store import takes_from_store
from cpuwheels.config.options import Level, NightlyOptions, NightlyPart

if TYPE_CHECKING:
    from cpuwheels.attestation.sign import Signing
    from cpuwheels.attestation.verify import Trust
    from cpuwheels.cli.folders import Folders
    from cpuwheels.config.paths import Paths

FOLDER = "index"
"""The index's folder below the output folder, if no other place is named."""

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable that names the file which GitHub Actions shows."""

_PATH = click.Path(path_type=Path)
_LOCKED = click.option(
    "--locked/--no-locked",
    default=True,
    show_default=True,
    help="Only wheels for which nothing was fetched that is not listed with its digest.",
)
_ADDRESS = click.option("--address", help="URL at which users reach the index; locks then name wheels by their URLs.")


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
@_LOCKED
@_ADDRESS
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
    allow_fallbacks: bool
    allow_unsandboxed: bool
    address: str | None
    commit: str | None
    part: NightlyPart
    wheels: Path | None
    verify: bool


@click.command()
@index_option("Index: its folder or s3://bucket/prefix (default: dist/index); with --build its folder or web address.")
@click.option("--target", "targets", multiple=True, help="Only this target; may be repeated.")
@click.option("--since", help="Build every commit after this one, the newest first.")
@click.option("--release", help="Build this version in place of the newest commit.")
@click.option("--latest-release", is_flag=True, help="Build the newest release's commit in place of the newest one.")
@click.option("--branch", help="Whose newest commit is built (default: matrix.yaml).")
@click.option("--repo", type=_PATH, help="Clone of vLLM (default: the repositories of matrix.yaml).")
@click.option("--level", type=click.Choice(get_args(Level)), help="Parity's cases (default: matrix.yaml).")
@click.option(
    "--hours", type=TimeLimit(1), help="End after this time; a wheel that is being made is left to the next run."
)
@click.option("--memory", type=SizeText(), help="Memory cap of the builds, such as 8G.")
@_LOCKED
@click.option(
    "--allow-fallbacks", is_flag=True, help="Use fallbacks that are listed, where what comes first is not there."
)
@click.option("--commit", help="Build this commit, by its full hash, in place of the newest one.")
@click.option("--build", "part", flag_value="build", type=str, help="Build and test; --publish publishes.")
@click.option("--publish", "part", flag_value="publish", type=str, help="Publish what --build left; nothing is built.")
@click.option("--wheels", type=_PATH, help="With --publish: where --build left them (default: dist/nightly/ready).")
@click.option("--no-verify", "verify", flag_value=False, default=True, help="Build no wheel a second time.")
@UNSANDBOXED
@_ADDRESS
@signing_options
@without_credentials(when=lambda options: options["part"] != "publish")
@pass_paths
@takes_from_store
def nightly(
    paths: Paths,
    /,
    index: str | None,
    key: str | None,
    public_key: Path | None,
    keyless: bool,
    trust_config: Path | None,
    **options: Unpack[_Nightly],
) -> None:
    """Build, test and publish the newest wheels, and take out the oldest."""
    from rich.console import Console

    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import NightlyError, PostponedError
    from cpuwheels.core.filesystem import storage_errors
    from cpuwheels.index.address import open_bucket, open_for_reading
    from cpuwheels.index.nightly.job import FOLDER as NIGHTLY
    from cpuwheels.index.nightly.job import run_nightly
    from cpuwheels.index.nightly.summary import FAULTS, outcome_table, worst
    from cpuwheels.verification.parity.reports import write_files

    options["part"] = options["part"] or "all"
    asked = SigningOptions(key=key, public_key=public_key, keyless=keyless, trust_config=trust_config)
    signing = _signing(asked, options["part"])
    if options["part"] != "publish":
        _refuse_bucket(index)
        note_ancestors()
    reporter = Reporter("nightly")
    place = index or str(paths.dist / FOLDER)
    bucket = open_for_reading(place) if options["part"] == "build" else open_bucket(place)
    summary = run_nightly(paths, load_matrix(paths.matrix), bucket, NightlyOptions(**options), reporter, signing)
    folder = paths.dist / NIGHTLY
    write_files(folder, {"summary.md": summary.as_markdown(), "summary.json": summary.as_json()})
    if step := os.environ.get(STEP_SUMMARY):
        with storage_errors(folder), open(step, "a", encoding="utf-8") as stream:  # noqa: PTH123  (GitHub's own file)
            stream.write(summary.as_markdown())
    outcome_table(summary).print(Console())
    reporter.info(f"{summary.as_line()}; summary: {folder / 'summary.json'}")
    if (second := summary.second_build) and second.state == "differs":
        reporter.announce(f"the second build of {second.source[:9]} {second.target} differs: {second.text}")
    lines = [
        f"{one.source[:9]} {one.target}: {one.reason} {one.kept}".rstrip() for one in summary.outcomes if one.reason
    ]
    match worst(summary.outcomes):
        case "wrong" | "failed":
            raise NightlyError(
                f"{summary.count(*FAULTS)} wheels were not published",
                where=folder,
                output="\n".join(lines),
                next_step="read why.txt and the logs in their folders; the next run tries them again",
            )
        case "postponed":
            raise PostponedError(
                f"{summary.count('postponed')} wheels are left for the next run",
                where=folder,
                output="\n".join(lines),
                next_step="run it again, with more --hours or more of the disk free",
            )


def _signing(options: SigningOptions, part: NightlyPart) -> Signing | None:
    """Return how to sign what is published.

    Raises:
        UsageError: This process builds: code of vLLM could reach the key or the identity.
    """
    from cpuwheels.core.errors import UsageError

    if not options["key"] and not options["keyless"]:
        return None
    if part != "publish":
        raise UsageError(
            "what builds signs nothing: a commit that is built could reach the key",
            where="--key" if options["key"] else "--keyless",
            next_step="run nightly --build without it, then nightly --publish with it",
        )
    return signing_of(options)


def _refuse_bucket(index: str | None) -> None:
    """Refuse to build where the index needs credentials: code of vLLM that runs on this machine could have them.

    Raises:
        UsageError: The index is in a bucket.
    """
    from cpuwheels.core.errors import UsageError

    if index is not None and index.startswith("s3:"):
        raise UsageError(
            "what builds has no credentials, so it cannot use an index in a bucket",
            where="--index",
            next_step="run nightly --build with the index's web address or without --index, then nightly --publish",
        )


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
