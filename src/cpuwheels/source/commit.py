"""A source by git commit: a clean copy of its files, never somebody's work tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from pydantic import ValidationError

from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import Strict
from cpuwheels.core.parse import LONGEST
from cpuwheels.core.plain_file import read_plain
from cpuwheels.core.sealed_entry import sealed_digests
from cpuwheels.core.trust import Trust
from cpuwheels.source.clone import open_repository
from cpuwheels.source.result import KIND
from cpuwheels.source.snapshot import Known, take_snapshot
from cpuwheels.source.tree_check import check_names
from cpuwheels.source.version import describe
from cpuwheels.source.worktree import check_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.source.repository import Repository
    from cpuwheels.source.result import Source

COMMITS = "commits"
"""Where the store records which commits its snapshots are of."""

_ATTRIBUTES = ".gitattributes"
_LATEST = 20
"""How many snapshots are checked at most; those of other repositories are of no use."""


@dataclass(frozen=True)
class CommitRequest:
    """A commit that a repository has.

    Attributes:
        revision: Its hash, a tag, a branch, or for a local clone any revision that git knows.
        clone: A clone of this machine; it is only read.
        remotes: Asked in order if there is no clone.
    """

    revision: str
    clone: Path | None
    remotes: tuple[str, ...]
    trust: ClassVar = Trust.COMMIT

    def get(self, store: Store, reporter: Reporter) -> Source:
        """Take a snapshot of the commit into the store.

        Raises:
            SourceError: There is no such commit or more than one, no repository answers, or it is no vLLM tree.
        """
        repository = open_repository(self.clone, self.remotes, [self.revision], store=store, reporter=reporter)
        commit = repository.commit(self.revision)
        if self.clone is None and not repository.publishes(commit):
            reporter.announce(
                f"commit {commit} is on no branch and below no tag of {repository.name}: it may be of a pull request "
                "or of anybody's fork"
            )
        return commit_source(repository, commit, store=store, reporter=reporter)


def commit_source(repository: Repository, commit: str, *, store: Store, reporter: Reporter) -> Source:
    """Return a commit's files as a source in the store.

    Args:
        repository: Where the commit is.
        commit: Its full hash.
        store: Where sources are kept.
        reporter: Reports the snapshot.

    Raises:
        SourceError: The commit is not there, or no vLLM tree.
    """
    described = describe(repository.git, commit)
    objects = repository.objects(commit)
    check_names(objects, f"commit {commit}")
    check_parts(objects, f"commit {commit}")
    earlier = next(_earlier(repository, commit, store), None)
    same = earlier.same(objects) if earlier else {}
    with store.scratch("commit") as work:
        folder = work / "tree"
        folder.mkdir()
        repository.check_out(commit, folder, earlier.commit if earlier and same else None)
        repository.check_objects(commit, {about.split()[-1] for name, about in objects.items() if name not in same})
        source = take_snapshot(
            folder,
            list(objects),
            described,
            epoch=repository.epoch(commit),
            origin=f"commit {commit}",
            known=Known(earlier.folder, same) if earlier else None,
            store=store,
            reporter=reporter,
        )
    text = _Record(source=source.folder.name, objects=objects).model_dump_json() + "\n"
    with storage_errors(store.root):
        write_atomic(store.path(COMMITS, f"{commit}.json"), text)
    return source


class _Record(Strict):
    """Where a commit's files are."""

    source: str
    """Key of the snapshot."""
    objects: dict[str, str]
    """Mode and object name of each file, by its path."""


@dataclass(frozen=True)
class _Earlier:
    """A snapshot of an earlier commit."""

    folder: Path
    commit: str
    objects: Mapping[str, str]

    def same(self, objects: Mapping[str, str]) -> dict[str, str]:
        """Return the digests of files that are the same in another commit; none if git's attributes differ."""
        changed = {name for name, _ in self.objects.items() ^ objects.items()}
        if any(PurePosixPath(name).name == _ATTRIBUTES for name in changed):
            return {}
        digests = sealed_digests(self.folder)
        return {name: digests[name] for name in objects.keys() - changed}


def _earlier(repository: Repository, commit: str, store: Store) -> Iterator[_Earlier]:
    """Yield whole snapshots of commits of a repository: of the commit itself, then the latest first."""
    latest = sorted((store.root / COMMITS).glob("[!.]*.json"), key=lambda path: -path.stat().st_mtime)
    for path in (store.path(COMMITS, f"{commit}.json"), *latest[:_LATEST]):
        if not repository.has(path.stem):
            continue
        try:
            record = _Record.model_validate_json(read_plain(path, LONGEST))
        except (OSError, ValidationError):
            continue  # removed meanwhile, or damaged
        if folder := store.find(KIND, record.source):
            yield _Earlier(folder, path.stem, record.objects)
