"""The command that writes into a shared store; it runs nothing of vLLM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.ranges import NumberRange, Size
from cpuwheels.core.elsewhere import STORE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from securesystemslib.signer import Key, Signer

    from cpuwheels.config.paths import Paths
    from cpuwheels.core.store import Store
    from cpuwheels.shared.wanted import Outcome, Wanted

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("target", required=False)
@click.option("--all", "everything", is_flag=True, help="Share all kernels of the stores, in place of TARGET's.")
@click.option(
    "--store", metavar="PLACE", envvar=STORE_VARIABLE, required=True, help="Where: a folder or s3://bucket/prefix."
)
@click.option("--key", help="Sign with a private key: its file, or a URI such as gcpkms:, awskms:, azurekms:, hsm:.")
@click.option("--public-key", type=_PATH, help="File of its public key (default: the private key's with .pub).")
@click.option(
    "--trusted-key",
    "trusted_keys",
    type=_PATH,
    multiple=True,
    help="Another public key whose entries are right, too; may be repeated.",
)
@click.option("--unsigned", is_flag=True, help="Share without a signature in a bucket, which readers have to accept.")
@click.option("--check", is_flag=True, help="Read each object that is there, and write the damaged ones again.")
@click.option("--prune", is_flag=True, help="Share nothing; remove from the store what nobody used for long.")
@click.option(
    "--older-than",
    "days",
    type=NumberRange(min=0),
    metavar="DAYS",
    help="With --prune: what no machine that shares used for so long (default: 30).",
)
@click.option("--down-to", type=Size(), metavar="SIZE", help="With --prune: go on until so much is left.")
@click.option("--dry-run", is_flag=True, help="With --prune: remove nothing; print what would be.")
@pass_paths
def share(
    paths: Paths,
    /,
    target: str | None,
    everything: bool,
    store: str,
    key: str | None,
    public_key: Path | None,
    trusted_keys: tuple[Path, ...],
    unsigned: bool,
    check: bool,
    prune: bool,
    days: float | None,
    down_to: int | None,
    dry_run: bool,
) -> None:
    """Share the kernels of TARGET's wheels, and what they were made with, with other machines.

    Run it after the builds, by itself: it has the credentials and the key that no build may have.
    """
    from rich.console import Console

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import SharedStoreError, UsageError
    from cpuwheels.core.store import Store
    from cpuwheels.core.tables import Column, Table
    from cpuwheels.core.units import format_size
    from cpuwheels.shared.address import open_place
    from cpuwheels.shared.push import Sharer

    given = {"--older-than": days is not None, "--down-to": down_to is not None, "--dry-run": dry_run}
    if prune:
        others = {"TARGET": target is not None, "--all": everything, "--key": key is not None, "--check": check}
        _refuse(others, "with --prune nothing is shared")
        _prune(store, days, down_to, dry_run=dry_run)
        return
    _refuse(given, "nothing is removed without --prune")
    if (target is None) != everything:
        raise UsageError("either TARGET is shared, or --all", where="share", next_step="give one of both")
    place = open_place(store, writes=True)
    if key is None and place.remote and not unsigned:
        raise UsageError(
            "nothing would prove who shared it",
            where="share",
            next_step="give the private key with --key; --unsigned does without, and readers need --unsigned-store",
        )
    signer, keys = _signer(key, public_key, trusted_keys)
    reporter, own = Reporter("share"), Store(paths.cache)
    sharer = Sharer(own, place, signer, keys, thorough=check)
    outcomes = []
    for wanted in _wanted(own, paths, target):
        outcome = sharer.share(wanted)
        outcomes.append(outcome)
        line = f"{outcome.wanted}: {outcome.state}{f' ({format_size(outcome.size)})' if outcome.size else ''}"
        (reporter.announce if outcome.why else reporter.info)(f"{line}{f': {outcome.why}' if outcome.why else ''}")
    table = Table((Column("kind"), *(Column(name, right=True) for name in ("shared", "there before", "not shared"))))
    for kind, *counts in _counted(outcomes):
        table.add_row(kind, *map(str, counts))
    if outcomes:
        table.print(Console(highlight=False))
    if wrong := [one for one in outcomes if one.state in {"differs", "refused"}]:
        raise SharedStoreError(
            f"{len(wrong)} {'entry was' if len(wrong) == 1 else 'entries were'} not shared: there is something else "
            "under the same key",
            where=place.name,
            output="\n".join(f"{one.wanted}: {one.state}: {one.why}" for one in wrong[:20]),
            next_step="kernels of one key are the same in every build: find out which machine differs, and remove its "
            "entry there",
        )


def _refuse(given: Mapping[str, bool], why: str) -> None:
    """Refuse options that do not go with the others.

    Raises:
        UsageError: One is given.
    """
    from cpuwheels.core.errors import UsageError

    if found := [name for name, is_given in given.items() if is_given]:
        raise UsageError(why, where=", ".join(found), next_step="leave out one or the other")


def _prune(store: str, days: float | None, down_to: int | None, *, dry_run: bool) -> None:
    """Remove what nobody used for long, and print it."""
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.units import format_size
    from cpuwheels.shared import limits
    from cpuwheels.shared.address import open_place

    done = limits.prune(
        open_place(store, writes=True), days=limits.DAYS if days is None else days, down_to=down_to, dry_run=dry_run
    )
    reporter, verb = Reporter("share"), "would be removed" if dry_run else "removed"
    for name in (*done.removed, *done.leftovers):
        reporter.info(f"{name}: {verb}")
    print(
        f"{len(done.removed)} of {done.entries} entries and {len(done.leftovers)} leftovers {verb}: "
        f"{format_size(done.freed)} of {format_size(done.size)}"
    )


def _signer(key: str | None, public: Path | None, trusted: Iterable[Path]) -> tuple[Signer | None, list[Key] | None]:
    """Return what signs, and the keys of those who may have written what is there.

    Raises:
        UsageError: The libraries are not installed, or an option needs another one.
        ProvenanceError: A key cannot be used.
    """
    from cpuwheels.core.errors import UsageError

    others = tuple(trusted)
    if key is None:
        if public is not None or others:
            raise UsageError(
                "there is no key to sign with",
                where="--public-key" if public is not None else "--trusted-key",
                next_step="name it with --key",
            )
        return None, None
    from cpuwheels.cli.provenance import require_libraries

    require_libraries()
    from cpuwheels.attestation.keys import open_signer, public_key

    signer = open_signer(key, public)
    return signer, [signer.public_key, *map(public_key, others)]


def _wanted(store: Store, paths: Paths, target: str | None) -> list[Wanted]:
    """Return what is shared.

    Raises:
        UnknownTargetError: There is no such target.
        UnusableWheelError: It has no wheel.
    """
    from cpuwheels.shared.wanted import shareable

    if target is None:
        return list(shareable(store))
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.errors import UnusableWheelError
    from cpuwheels.pipeline.built_wheel import RECORD
    from cpuwheels.pipeline.recorded_build import read_record
    from cpuwheels.shared.kinds import AUDITED, KERNELS

    name = load_matrix(paths.matrix).target(target).id
    records = [read_record(path.parent) for path in sorted((paths.dist / name).glob(f"*/{RECORD}"))]
    if not records:
        raise UnusableWheelError(
            f"there is no wheel of {name}", where=paths.dist / name, next_step="build one first, or share --all"
        )
    chosen = {KERNELS: {each.kernel_key for each in records}, AUDITED: {each.wheel.audit for each in records}}
    return list(shareable(store, chosen))


def _counted(outcomes: Iterable[Outcome]) -> list[tuple[str, int, int, int]]:
    """Return how many entries of each kind were shared, were there, and were not shared."""
    found: dict[str, list[int]] = {}
    for one in outcomes:
        counts = found.setdefault(one.wanted.kind, [0, 0, 0])
        counts[0 if one.state in {"shared", "healed", "grown"} else 1 if one.state == "there" else 2] += 1
    return [(kind, *counts) for kind, counts in found.items()]  # type: ignore[misc]  # three of them
