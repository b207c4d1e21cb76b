"""Commands that check the wheel index: what it has, and what rebuilders say of its wheels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cpuwheels.cli.index import FOLDER
from cpuwheels.cli.index_place import WRITTEN, index_option, open_existing
from cpuwheels.cli.provenance import require_libraries

if TYPE_CHECKING:
    from cpuwheels.cli.folders import Folders
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.check import Fault

_SHOWN = 50
_PATH = click.Path(path_type=Path)


@click.command("check-index")
@index_option(WRITTEN)
@click.option("--repair", is_flag=True, help="Rewrite pages that do not match their wheels.")
@click.option("--rebuilders", type=_PATH, metavar="FILE", help="Verify what these rebuilders say, and print it.")
@click.option(
    "--require-rebuilders",
    "required",
    type=click.IntRange(1),
    metavar="N",
    help="Fail if fewer than N of them got the same bytes of a wheel, or as many got others.",
)
@click.pass_obj
def check_index(
    folders: Folders, index: str | None, repair: bool, rebuilders: Path | None, required: int | None
) -> None:
    """Verify everything in the index: links, digests, metadata, and what rebuilders say."""
    from cpuwheels.core.errors import PublishError, UsageError
    from cpuwheels.core.text import first_lines
    from cpuwheels.index.check import Remedy, repair_index
    from cpuwheels.index.check import check_index as check

    if required is not None and rebuilders is None:
        raise UsageError(
            "nothing says whose statements count", where="--require-rebuilders", next_step="name --rebuilders FILE"
        )
    bucket = open_existing(index or str(folders.output() / FOLDER))
    faults = repair_index(bucket) if repair else check(bucket)
    if rebuilders is not None and not any(fault.remedy in {Remedy.PAGE, Remedy.FIRST} for fault in faults):
        faults += _rebuilder_faults(bucket, rebuilders, required)
    if faults:
        raise PublishError(
            f"the index has {len(faults)} fault{'s' if len(faults) > 1 else ''}",
            where=bucket.name,
            output="\n".join(first_lines([fault.what for fault in faults], _SHOWN)),
            next_step="; ".join(dict.fromkeys(fault.remedy.value for fault in faults)),
        )
    print(f"{bucket.name}: nothing is wrong")


def _rebuilder_faults(bucket: Bucket, file: Path, required: int | None) -> list[Fault]:
    """Print what rebuilders say of each wheel, and return what is wrong about it."""
    require_libraries()
    from cpuwheels.core.text import first_lines
    from cpuwheels.index.check import Fault, Remedy
    from cpuwheels.index.rebuilders.check import require_agreement, verify_agreements
    from cpuwheels.index.rebuilders.known import read_rebuilders

    found = verify_agreements(bucket, read_rebuilders(file))
    for line in first_lines([one.sentence for one in found], _SHOWN):
        print(line)
    faults = [Fault(what, Remedy.COLLECT) for one in found for what in one.faults]
    if required is not None:
        faults += [Fault(what, Remedy.REBUILDERS) for what in require_agreement(found, required)]
    return faults


@click.command("collect-rebuilds")
@index_option(WRITTEN)
@click.option("--rebuilders", type=_PATH, metavar="FILE", required=True, help="Whose statements count, by their keys.")
@click.pass_obj
def collect_rebuilds(folders: Folders, index: str | None, rebuilders: Path) -> None:
    """Ask rebuilders' sites what they got, and show on the index's pages how many agree and who differs."""
    require_libraries()
    from datetime import UTC, datetime

    from cpuwheels.core.console import Reporter
    from cpuwheels.index.agreement import agreement_words
    from cpuwheels.index.rebuilders.collect import collect
    from cpuwheels.index.rebuilders.known import read_rebuilders

    known = read_rebuilders(rebuilders)
    bucket = open_existing(index or str(folders.output() / FOLDER))
    found = collect(bucket, known, Reporter("collect-rebuilds"), datetime.now(UTC))
    for entry in found.changed:
        words = "no rebuilder is known" if entry.rebuilds is None else agreement_words(entry.rebuilds)
        print(f"{entry.filename}: {words}")
    count = len(found.changed)
    print(f"{bucket.name}: the pages of {count} {'wheel' if count == 1 else 'wheels'} changed")
