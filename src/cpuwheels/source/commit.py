"""A source by git commit: a clean copy of its files, never somebody's work tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.source.clone import local_repository, remote_repository
from cpuwheels.source.snapshot import take_snapshot
from cpuwheels.source.tree import check_tree
from cpuwheels.source.version import describe

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.source.repository import Repository
    from cpuwheels.source.result import Source
    from cpuwheels.store import Store


@dataclass(frozen=True)
class CommitRequest:
    """A commit to be had from a repository.

    Attributes:
        revision: Its hash, a tag, a branch, or for a local clone any revision that git knows.
        clone: A clone of this machine; it is only read.
        remotes: Asked in order if there is no clone.
    """

    revision: str
    clone: Path | None
    remotes: tuple[str, ...]

    def get(self, store: Store, reporter: Reporter) -> Source:
        """Take a snapshot of the commit into the store.

        Raises:
            SourceError: There is no such commit or more than one, no repository answers, or it is no vLLM tree.
        """
        repository = (
            local_repository(self.clone)
            if self.clone
            else remote_repository(self.remotes, [self.revision], store=store, reporter=reporter)
        )
        commit = repository.commit(self.revision)
        return commit_source(repository, commit, store=store, reporter=reporter)


def commit_source(repository: Repository, commit: str, *, store: Store, reporter: Reporter) -> Source:
    """Return a commit's files as a source in the store.

    Args:
        repository: Where the commit is.
        commit: Its full hash.
        store: Where sources are kept.
        reporter: Told of the snapshot.

    Raises:
        SourceError: The commit is not there, or no vLLM tree.
    """
    described = describe(repository.git, commit)
    with store.scratch("commit") as work:
        folder = work / "tree"
        folder.mkdir()
        names = repository.check_out(commit, folder)
        check_tree(folder, f"commit {commit}")
        return take_snapshot(
            folder, names, described, epoch=repository.epoch(commit), origin=f"commit {commit}",
            store=store, reporter=reporter,
        )  # fmt: skip
