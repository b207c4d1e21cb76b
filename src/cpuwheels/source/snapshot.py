"""A tree's files copied into the store; what an earlier copy has is not copied again."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import digest_of_entries, entry_digest, make_key, text_digest
from cpuwheels.core.errors import SourceError
from cpuwheels.core.sealed_entry import sealed_digests
from cpuwheels.source.result import KIND, Source
from cpuwheels.source.tree_check import check_links, check_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.source.version import Described


@dataclass(frozen=True)
class Known:
    """Files of a tree that need not be read, as an earlier snapshot has them.

    Attributes:
        folder: That snapshot, found a moment ago.
        digests: Of each file, by its name.
    """

    folder: Path
    digests: Mapping[str, str]


def take_snapshot(
    folder: Path,
    names: Sequence[str],
    described: Described,
    *,
    epoch: int,
    origin: str,
    known: Known | None = None,
    store: Store,
    reporter: Reporter,
) -> Source:
    """Return a tree's files as a source in the store.

    Args:
        folder: The tree; it is not written to.
        names: Relative POSIX paths of the files and links that belong to it.
        described: Its version and commit.
        epoch: Seconds since 1970 of its newest file or commit.
        origin: For people: what it is a copy of.
        known: Files that need not be in the folder, because they are in an earlier snapshot.
        store: Where sources are kept.
        reporter: Reports if files are copied.

    Raises:
        SourceError: A file cannot be read or was changed meanwhile.
        UnsuitableSourceError: A name may not be in a source, or a link leaves it.
    """
    check_names(names, origin)
    digests = dict(known.digests) if known else {}
    digests |= _digests(folder, [name for name in names if name not in digests])
    links = [name for name, digest in digests.items() if digest.startswith("link:")]
    digest = text_digest(f"{digest_of_entries(digests)} {described.version} {epoch}")
    key = make_key(tree=digest, layout=1)
    copy = store.find(KIND, key, of=known.folder if known else None)
    if copy is None:
        before = known.folder if known else store.latest(KIND)
        reporter.info(f"taking a snapshot of {len(names)} files of {folder}")

        def make(fresh: Path) -> None:
            _copy(folder, digests, fresh, before)
            check_links(fresh, links, origin)

        copy = store.get(KIND, key, make, of=before)
    check_links(copy, links, origin)  # an entry may be older than the check
    return Source(
        version=described.version,
        folder=copy,
        digest=digest,
        epoch=epoch,
        origin=f"{origin}, content {digest[:16]}",
        version_from=described.version_from,
        commit=described.commit,
    )


def _digests(folder: Path, names: Sequence[str]) -> dict[str, str]:
    try:
        return {name: entry_digest(f"{folder}/{name}") for name in names}
    except OSError as error:
        raise SourceError(
            f"cannot read {error.filename}: {error.strerror}",
            where=folder,
            next_step="make it readable, or build again when nothing writes to the tree",
        ) from error


def _copy(folder: Path, digests: Mapping[str, str], copy: Path, before: Path | None) -> None:
    """Copy a tree; what an earlier snapshot has is linked from there, nobody writes to either.

    Raises:
        SourceError: A file was changed meanwhile.
    """
    known = sealed_digests(before) if before else {}
    for parent in {os.path.dirname(name) for name in digests}:  # noqa: PTH120  (thousands of files)
        (copy / parent).mkdir(parents=True, exist_ok=True)
    for name, digest in digests.items():
        origin = f"{folder}/{name}"
        if known.get(name) == digest:
            if not digest.startswith("link:"):
                with contextlib.suppress(OSError):  # a file system without hard links
                    os.link(f"{before}/{name}", f"{copy}/{name}")
                    continue
            origin = f"{before}/{name}"
        shutil.copy2(origin, f"{copy}/{name}", follow_symlinks=False)
        if entry_digest(f"{copy}/{name}") != digest:
            raise SourceError(
                f"{name} was changed while the tree was read",
                where=folder / name,
                next_step="build again when nothing writes to the tree",
            )
