"""The nightly job on the command line: here or on a farm, and published by the same process or by another."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import click

from cpuwheels.cli.build import UNSANDBOXED
from cpuwheels.cli.clean_process import note_ancestors, without_credentials
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
from cpuwheels.cli.index import ADDRESS, FOLDER, LOCKED
from cpuwheels.cli.index_place import index_option
from cpuwheels.cli.provenance import SigningOptions, signing_of, signing_options
from cpuwheels.cli.ranges import SizeText, TimeLimit
from cpuwheels.cli.shared_store import takes_from_store
from cpuwheels.config.options import Level, NightlyOptions, NightlyPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.attestation.sign import Signing
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.index.nightly.on_farm import Farm

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable that names the file which GitHub Actions shows."""

_PATH = click.Path(path_type=Path)


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


class _Sent(TypedDict):
    """The options about a farm, as click names them."""

    farm: str | None
    farm_keys: Path | None
    second_opinion: bool
    priority: int


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
@LOCKED
@click.option(
    "--allow-fallbacks", is_flag=True, help="Use fallbacks that are listed, where what comes first is not there."
)
@click.option("--commit", help="Build this commit, by its full hash, in place of the newest one.")
@click.option("--build", "part", flag_value="build", type=str, help="Build and test; --publish publishes.")
@click.option("--publish", "part", flag_value="publish", type=str, help="Publish what --build left; nothing is built.")
@click.option("--wheels", type=_PATH, help="With --publish: where --build left them (default: dist/nightly/ready).")
@click.option("--no-verify", "verify", flag_value=False, default=True, help="Build no wheel a second time.")
@uses_farm
@SECOND_OPINION
@PRIORITY
@UNSANDBOXED
@ADDRESS
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
    farm: str | None,
    farm_keys: Path | None,
    second_opinion: bool,
    priority: int,
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
    sent = _Sent(farm=farm, farm_keys=farm_keys, second_opinion=second_opinion, priority=priority)
    with _farm_of(paths, sent, options, reporter) as workers:
        summary = run_nightly(
            paths, load_matrix(paths.matrix), bucket, NightlyOptions(**options), reporter, signing, workers
        )
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


@contextmanager
def _farm_of(paths: Paths, sent: _Sent, options: _Nightly, reporter: Reporter) -> Iterator[Farm | None]:
    """Yield the farm that makes the wheels; None if there is none.

    Raises:
        UsageError: An option means nothing there, or this process also publishes.
        FarmError: It does not answer.
    """
    from cpuwheels.core.errors import UsageError

    refuse_alone(sent["farm"], second_opinion=sent["second_opinion"], priority=sent["priority"])
    if sent["farm"] is None:
        yield None
        return
    if options["part"] != "build":
        raise UsageError(
            "what sends jobs to a farm publishes nothing: a worker's answer can run code here",
            where="--farm",
            next_step="run nightly --build with it, then nightly --publish without it, best on another machine",
        )
    if options["memory"]:
        raise UsageError(WORKERS_OWN, where="--memory", next_step="give it to cpuwheels farm")
    with open_farm(paths, sent["farm"], sent["farm_keys"]) as executor:
        from cpuwheels.index.nightly.on_farm import Farm

        yield Farm(executor, opinions_of(executor, reporter, wanted=sent["second_opinion"]), sent["priority"])


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
