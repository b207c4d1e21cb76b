"""The folder that a rebuilder publishes: a statement that is there stays there, and the list says what is there.

A rebuild appears in one rename, in a folder of its own, and then on the list, which is replaced in one rename. What the
list has is read from the folders each time, so a run that was cut short between both loses nothing.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from cpuwheels.attestation.files import LARGEST as LARGEST_ENVELOPE
from cpuwheels.core.errors import CpuwheelsError, PostponedError
from cpuwheels.core.filesystem import make_folders, remove_tree, storage_errors, write_atomic
from cpuwheels.core.plain_file import read_plain
from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo
from cpuwheels.rebuild.signing import sign_rebuild
from cpuwheels.rebuild.site.listing import FOLDER, LARGEST, LIST, FailedRebuild, ListedRebuild, Listing, read_listing
from cpuwheels.rebuild.statement import LARGEST as LARGEST_STATEMENT
from cpuwheels.rebuild.statement import SIGNED_SUFFIX, SUFFIX, check_rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.attestation.sign import Signing
    from cpuwheels.core.console import Reporter

LOCK = ".rebuilding.lock"
_REASON = 1000
_NEXT_STEP = "make the folder writable, or name another with --site"


class SiteFolder:
    """The folder, held by one run.

    Args:
        root: Of what is served.
        reporter: Told of what cannot be used.
    """

    def __init__(self, root: Path, reporter: Reporter) -> None:
        self.root, self._reporter = root, reporter
        self.listing = Listing(rebuilds=tuple(self._found()), failed=self._failures())
        self._write()

    def has(self, sha256: str) -> bool:
        """Return whether a wheel was rebuilt, whatever came of it."""
        return any(one.sha256 == sha256 for one in self.listing.rebuilds)

    def attempts(self, sha256: str) -> int:
        """Return how often a wheel could not be rebuilt."""
        return next((one.attempts for one in self.listing.failed if one.sha256 == sha256), 0)

    def place(self, sha256: str, moment: str) -> Path:
        """Return the folder of a rebuild that begins: one that is not there, as what is there stays.

        Args:
            sha256: Digest of the wheel.
            moment: When: ISO 8601, UTC.
        """
        began = datetime.fromisoformat(moment)
        while (folder := self.root / FOLDER / sha256 / began.strftime("%Y%m%dT%H%M%SZ")).exists():
            began += timedelta(seconds=1)
        return folder

    def list_rebuild(self, folder: Path) -> None:
        """List a rebuild that has come to its end.

        Raises:
            ProvenanceError: Its statement is none about that wheel.
            StoreError: The list cannot be written.
        """
        new = self._read(folder)
        kept = [one for one in self.listing.rebuilds if one.folder != new.folder]
        failed = tuple(one for one in self.listing.failed if one.sha256 != new.sha256)
        self.listing = Listing(rebuilds=_sorted([*kept, new]), failed=failed)
        self._write()

    def list_failure(self, wheel: str, sha256: str, moment: str, reason: str, *, passing: bool) -> None:
        """List a wheel that could not be rebuilt.

        Args:
            wheel: Its name.
            sha256: Its digest.
            moment: When that was tried.
            reason: Why, for people.
            passing: Whether it may be gone soon, so that the attempt does not count.

        Raises:
            StoreError: The list cannot be written.
        """
        said = printable(without_userinfo(reason))[:_REASON]
        count = self.attempts(sha256) + (0 if passing else 1)
        new = FailedRebuild(wheel=wheel, sha256=sha256, moment=moment, attempts=count, reason=said)
        others = [one for one in self.listing.failed if one.sha256 != sha256]
        failed = tuple(sorted([*others, new], key=lambda one: (one.wheel, one.sha256)))
        self.listing = Listing(rebuilds=self.listing.rebuilds, failed=failed)
        self._write()

    def sign(self, signing: Signing) -> list[Path]:
        """Sign all statements that are not signed yet, and return the envelopes.

        Raises:
            ProvenanceError: The key does not sign.
        """
        made = []
        for one in self.listing.rebuilds:
            if one.envelope is None:
                folder = self.root / one.folder
                made.append(sign_rebuild(folder / f"{one.wheel}{SUFFIX}", signing))
                self.list_rebuild(folder)
        return made

    def _write(self) -> None:
        with storage_errors(self.root, next_step=_NEXT_STEP):
            write_atomic(self.root / LIST, self.listing.render())

    def _found(self) -> tuple[ListedRebuild, ...]:
        """Return the rebuilds whose folders are there; what a run that was cut short has left half-made is removed."""
        found = []
        with storage_errors(self.root, next_step=_NEXT_STEP):
            for folder in sorted((self.root / FOLDER).glob("*/*")):
                if folder.name.startswith("."):
                    remove_tree(folder)
                    continue
                try:
                    found.append(self._read(folder))
                except (CpuwheelsError, OSError, ValueError) as error:
                    self._reporter.announce(f"{folder} is not listed: {error}".partition("\n")[0])
        return _sorted(found)

    def _read(self, folder: Path) -> ListedRebuild:
        sha256 = folder.parent.name
        names = [path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")]
        if len(names) != 1:
            raise ValueError(f"it has {len(names)} statements")
        name = names[0]
        path = folder / f"{name}{SUFFIX}"
        statement = check_rebuild(read_plain(path, LARGEST_STATEMENT), name, sha256, path)
        envelope = None
        if (signed := folder / f"{name}{SIGNED_SUFFIX}").exists():
            envelope = hashlib.sha256(read_plain(signed, LARGEST_ENVELOPE)).hexdigest()
        summary = statement.predicate
        return ListedRebuild(
            wheel=name,
            sha256=sha256,
            result=summary.details.result,
            rebuilt=summary.details.rebuilt.digest["sha256"],
            moment=summary.time_verified,
            folder=folder.relative_to(self.root).as_posix(),
            envelope=envelope,
        )

    def _failures(self) -> tuple[FailedRebuild, ...]:
        """Return the failures on the list that is there; a list that is damaged has lost them."""
        try:
            return read_listing(read_plain(self.root / LIST, LARGEST), self.root / LIST).failed
        except FileNotFoundError:
            return ()
        except (CpuwheelsError, OSError) as error:
            self._reporter.announce(f"{self.root / LIST} is made anew: {error}".partition("\n")[0])
            return ()


@contextmanager
def open_site(root: Path, reporter: Reporter) -> Iterator[SiteFolder]:
    """Hold the folder that a rebuilder publishes, made if it is not there.

    Args:
        root: Of what is served.
        reporter: Told of what cannot be used.

    Raises:
        PostponedError: Another run has it.
        StoreError: It cannot be read or written.
    """
    with storage_errors(root, next_step=_NEXT_STEP):
        make_folders(root)
        lock = FileLock(root / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise PostponedError(
                "another run rebuilds into this folder",
                where=root,
                next_step="wait for it, or name another with --site",
            ) from error
    try:
        yield SiteFolder(root, reporter)
    finally:
        lock.release()


def _sorted(found: list[ListedRebuild]) -> tuple[ListedRebuild, ...]:
    return tuple(sorted(found, key=lambda one: (one.wheel, one.sha256, one.moment, one.folder)))
