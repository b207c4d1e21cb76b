"""What each command of the wheel index does, in terms of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.errors import PublishError
from cpuwheels.index.bucket import open_bucket
from cpuwheels.index.check import check_index
from cpuwheels.index.layout import views
from cpuwheels.index.serve import serve as serve_folder
from cpuwheels.index.session import publish_wheel
from cpuwheels.model.matrix import load_matrix
from cpuwheels.model.units import format_size

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config import Places

FOLDER = "index"
"""Below the output folder, where an index is kept if no other place is named."""

_SHOWN = 50


def publish(
    places: Places, wheel: Path, index: str | None, *, commit: str | None, target: str | None, nightly: bool
) -> None:
    """Add a wheel to an index and say where it is listed."""
    bucket = open_bucket(index or str(places.dist / FOLDER))
    entry, new = publish_wheel(
        bucket, wheel, load_matrix(places.root), commit=commit, target=target, nightly=nightly
    )  # fmt: skip
    listed = ", ".join(views(entry, nightly=nightly))
    state = "published" if new else "was there already"
    print(f"{entry.filename}: {state} in {bucket.name} ({format_size(entry.size)}, parity {entry.parity}); in {listed}")


def check(places: Places, index: str | None) -> None:
    """Verify an index.

    Raises:
        PublishError: Something is wrong with it; every fault is listed.
    """
    bucket = open_bucket(index or str(places.dist / FOLDER))
    faults = check_index(bucket)
    if faults:
        more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        raise PublishError(
            f"{len(faults)} things are wrong with the index",
            where=bucket.name,
            output="\n".join([*faults[:_SHOWN], *more]),
            next_step="publish the wheels named again from their files, or restore those from a copy",
        )
    print(f"{bucket.name}: nothing is wrong")


def serve(places: Places, index: Path | None, port: int) -> None:
    """Serve an index on this machine until interrupted."""
    serve_folder(
        (index or places.dist / FOLDER).expanduser().resolve(), port, lambda address: print(address, flush=True)
    )
