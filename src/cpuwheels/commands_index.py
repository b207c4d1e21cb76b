"""What each command of the wheel index does, in terms of its parts."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from rich.console import Console

from cpuwheels.console import Reporter
from cpuwheels.errors import NightlyError, PostponedError, PublishError
from cpuwheels.index.check import check_index, repair_index
from cpuwheels.index.open import open_bucket
from cpuwheels.index.serve import serve as serve_folder
from cpuwheels.index.session import publish_wheel
from cpuwheels.model.matrix import load_matrix
from cpuwheels.model.units import format_size
from cpuwheels.nightly.outcome import FAULTS, outcome_table, worst
from cpuwheels.nightly.session import FOLDER as NIGHTLY
from cpuwheels.nightly.session import run_nightly
from cpuwheels.parity.files import write_files
from cpuwheels.storage import storage_errors

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config import Places
    from cpuwheels.options import NightlyOptions

FOLDER = "index"
"""Below the output folder, where an index is kept if no other place is named."""

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable with the file that GitHub Actions shows."""

_SHOWN = 50


def publish(
    places: Places, wheel: Path, index: str | None, *, commit: str | None, target: str | None, nightly: bool
) -> None:
    """Add a wheel to an index and say where it is listed."""
    bucket = open_bucket(index or str(places.dist / FOLDER))
    published = publish_wheel(
        bucket, wheel, load_matrix(places.root), commit=commit, target=target, nightly=nightly
    )  # fmt: skip
    entry, listed = published.entry, ", ".join(published.views)
    state = "published" if published.new else "was there already"
    print(f"{entry.filename}: {state} in {bucket.name} ({format_size(entry.size)}, parity {entry.parity}); in {listed}")


def nightly(places: Places, index: str | None, options: NightlyOptions) -> None:
    """Run a nightly job, write its summary and show it.

    Raises:
        NightlyError: A result was wrong, or a wheel could not be made.
        PostponedError: Time or disk ran out.
    """
    reporter = Reporter("nightly")
    bucket = open_bucket(index or str(places.dist / FOLDER))
    summary = run_nightly(places, load_matrix(places.root), bucket, options, reporter)
    folder = places.dist / NIGHTLY
    write_files(folder, {"summary.md": summary.as_markdown(), "summary.json": summary.as_json()})
    if step := os.environ.get(STEP_SUMMARY):
        with storage_errors(folder), open(step, "a", encoding="utf-8") as stream:  # noqa: PTH123  (GitHub's own file)
            stream.write(summary.as_markdown())
    Console().print(outcome_table(summary))
    reporter.info(f"{summary.as_line()}; summary: {folder / 'summary.json'}")
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
                f"{summary.count('postponed')} wheels are left to the next time",
                where=folder,
                output="\n".join(lines),
                next_step="run it again, with more --hours or more of the disk free",
            )


def show_matrix(places: Places, *, github: bool) -> None:
    """Print the targets that are ready and have a runner, for GitHub Actions or for people."""
    targets = [target for target in load_matrix(places.root).targets if target.is_ready and target.runner]
    if github:
        rows = [{"target": target.id, "runner": target.runner} for target in targets]
        print(json.dumps({"include": rows}, separators=(",", ":")))
        return
    for target in targets:
        print(f"{target.id}: {target.description}, on {target.runner}")


def check(places: Places, index: str | None, *, repair: bool) -> None:
    """Verify an index.

    Args:
        places: Where it is if no other place is named.
        index: Folder or address.
        repair: Write pages anew that are wrong.

    Raises:
        PublishError: Something is wrong with it; every fault is listed, and what puts it right.
    """
    bucket = open_bucket(index or str(places.dist / FOLDER))
    faults = repair_index(bucket) if repair else check_index(bucket)
    if faults:
        more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        raise PublishError(
            f"the index has {len(faults)} fault{'s' if len(faults) > 1 else ''}",
            where=bucket.name,
            output="\n".join([*(fault.what for fault in faults[:_SHOWN]), *more]),
            next_step="; ".join(dict.fromkeys(fault.remedy.value for fault in faults)),
        )
    print(f"{bucket.name}: nothing is wrong")


def serve(places: Places, index: Path | None, port: int) -> None:
    """Serve an index on this machine until interrupted."""
    serve_folder(
        (index or places.dist / FOLDER).expanduser().resolve(), port, lambda address: print(address, flush=True)
    )
