"""Publishing one wheel by hand, with its reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import PublishError
from cpuwheels.index.entry import Speed, read_entry
from cpuwheels.index.publish import Publication, publish, wheel_before
from cpuwheels.index.reports import reports_beside
from cpuwheels.verification.serving.result import SERVE

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.publish import Published


def publish_wheel(
    bucket: Bucket,
    wheel: Path,
    matrix: Matrix,
    *,
    commit: str | None = None,
    target: str | None = None,
    nightly: bool = False,
) -> Published:
    """Publish a wheel with the reports next to it.

    Args:
        bucket: Where the index is kept.
        wheel: The file.
        matrix: Lists the targets that a wheel can have.
        commit: Of its source, if the wheel does not contain it.
        target: Target id, if the wheel does not contain it.
        nightly: Whether it becomes the newest of its target.

    Raises:
        PublishError: It cannot be listed in an index, a test of it failed, or it cannot be published.
        MatrixError: There is no such target.
    """
    entry, metadata = read_entry(wheel, commit=commit, target=target)
    matrix.target(entry.target)
    found = reports_beside(wheel, entry.sha256)
    if found.parity == "failed":
        raise PublishError(
            f"the kernels of {wheel.name} gave wrong results",
            where=wheel.with_name("parity.json"),
            next_step="read its parity.html; a wheel whose parity failed is not published",
        )
    if found.served == "failed":
        raise PublishError(
            f"a server with {wheel.name} does not answer as it should",
            where=wheel.with_name(SERVE),
            next_step="read its serve.json; a wheel that does not serve is not published",
        )
    before = wheel_before(bucket, entry)
    same = before is not None and before.kernels == entry.kernels != ""
    speed = Speed(against=before.filename) if before is not None and same else found.speed
    tested = {"parity": found.parity, "served": found.served, "speed": speed}
    entry = entry.model_copy(update={**tested, "beside": tuple(sorted(found.files))})
    return publish(bucket, Publication(entry, wheel, metadata, found.files, nightly))
