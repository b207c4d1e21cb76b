"""What an index already says of a wheel that is published again."""

from __future__ import annotations

import hashlib
import posixpath
from typing import TYPE_CHECKING

from cpuwheels.core.errors import PublishError
from cpuwheels.index.commit_pages import Commits, Day, day_of
from cpuwheels.index.layout import COMMITS, companion_path, day_path, views, wheel_path
from cpuwheels.index.reading import read_commit_page, read_entries
from cpuwheels.index.signed import merged, signed_files
from cpuwheels.pipeline.pylock import FILE as LOCK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.entry import Entry, Lock


def known_entry(bucket: Bucket, entry: Entry) -> Entry | None:
    """Return what is published under a wheel's name; None if nothing is.

    Raises:
        PublishError: A page is damaged.
    """
    listed = (one for view in views(entry, nightly=True) for one in read_entries(bucket, view))
    found = next((one for one in listed if one.filename == entry.filename), None)
    if (found and found.commit) or wheel_path(entry) not in bucket.names(_folder(entry)):
        return found
    days = [day_of(found)] if found else read_commit_page(bucket, COMMITS, Commits).days
    return _of_a_commit(bucket, entry, days) or found


def with_known(bucket: Bucket, entry: Entry, known: Entry) -> Entry:
    """Return an entry, completed with what the index said before of the same wheel.

    Args:
        bucket: Where the index is kept; a report that is no longer there is left out, and so is a lock.
        entry: The wheel now.
        known: The earlier entry.

    Raises:
        PublishError: They are of different bytes, or of different commits or targets.
    """
    if known.sha256 != entry.sha256:
        raise PublishError(
            f"another {entry.filename} was published on {known.uploaded}, with other bytes",
            where=bucket.name,
            next_step="what is published is never replaced: give the new wheel a build tag",
        )
    for what, before, now in (("commit", known.commit, entry.commit), ("target", known.target, entry.target)):
        if before and now and before != now:
            raise PublishError(
                f"{entry.filename} was published with {what} {before}, not {now}",
                where=bucket.name,
                next_step=f"leave --{what} out: what is published is never replaced",
            )
    names = bucket.names(_folder(entry))
    kept = {name for name in known.beside if companion_path(entry, name) in names}
    changes = {
        "uploaded": known.uploaded,
        # A wheel that does not contain its age is as old as its first publication.
        "made": known.made if entry.made == entry.uploaded else entry.made,
        "commit": entry.commit or known.commit,
        "subject": entry.subject or known.subject,
        "beside": tuple(sorted({*kept, *entry.beside})),
        **{name: getattr(known if entry.parity == "not run" else entry, name) for name in ("parity", "tried", "gaps")},
        "lock": _lock(bucket, entry, known),
        "signed": merged(entry.signed, known.signed, signed_files(bucket, known)),
        "served": known.served if entry.served == "not run" else entry.served,
        # The first report compares with the wheel that came before; now another wheel may seem to come before.
        "speed": known.speed or entry.speed,
        "sandbox": known.sandbox or entry.sandbox,
        "locked": entry.locked if known.locked is None else known.locked,
        "reproduced": entry.reproduced or known.reproduced,
        "rebuilds": known.rebuilds,
    }
    return entry.model_copy(update=changes)


def _lock(bucket: Bucket, entry: Entry, known: Entry) -> Lock | None:
    """Return the lock that was published; another one only if that one is not there any more, or damaged."""
    if known.lock is None:
        return entry.lock
    content = bucket.read(companion_path(known, LOCK))
    if content is not None and hashlib.sha256(content).hexdigest() == known.lock.sha256:
        return known.lock
    return entry.lock or (known.lock if content is not None else None)


def _folder(entry: Entry) -> str:
    return posixpath.dirname(wheel_path(entry))


def _of_a_commit(bucket: Bucket, entry: Entry, days: Iterable[str]) -> Entry | None:
    """Return what is published of a wheel under another commit than the one named now, if anything is."""
    path = wheel_path(entry)
    for day in days:
        for row in read_commit_page(bucket, day_path(day), Day).rows:
            if row.commit and any(wheel.path == path for wheel in row.wheels.values()):
                return next((one for one in read_entries(bucket, row.commit) if wheel_path(one) == path), None)
    return None
