"""The sources that wheels are wanted of, releases and commits, and which of them have the same kernels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from cpuwheels.core.direct_mode import latest_reads
from cpuwheels.core.errors import SourceError, UsageError
from cpuwheels.fetch.git_archive import repositories_of
from cpuwheels.kernels.commit_fingerprints import by_reads, commit_fingerprints
from cpuwheels.kernels.depfile import KIND as READS
from cpuwheels.kernels.depfile import Reads
from cpuwheels.source.clone import REPOSITORY_VARIABLE, open_repository
from cpuwheels.source.history import history_between
from cpuwheels.source.revisions import git_name, kind_of, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.source.repository import Repository


@dataclass(frozen=True)
class Asked:
    """The sources that a user names.

    Attributes:
        named: Versions of releases that the matrix pins, and commits by hash, tag or branch.
        all_releases: Whether every release that the matrix pins is meant.
        since: Commit after which every commit of the branch is meant.
        branch: The branch.
        repo: Clone of vLLM; the matrix's repositories when None.
    """

    named: tuple[str, ...] = ()
    all_releases: bool = False
    since: str | None = None
    branch: str = "main"
    repo: Path | None = None


def find_sources(asked: Asked, matrix: Matrix, store: Store, reporter: Reporter) -> dict[str, str]:
    """Return what is built: versions and full hashes, in the order asked, each with the class of its kernels.

    The class is empty where it is not known: of a release, and of a single commit.

    Args:
        asked: What the user names.
        matrix: The configuration.
        store: Where clones are kept, and what compilers read.
        reporter: Told which repository is asked.

    Raises:
        UsageError: A folder is named, or nothing.
        SourceError: There is no such release or commit.
        BisectError: ``since`` is not before the branch's newest commit.
    """
    pinned = {release.version for release in matrix.releases}
    releases = sorted(pinned, key=Version, reverse=True) if asked.all_releases else []
    texts: list[str] = []
    for text in asked.named:
        (releases if _is_release(text, pinned) else texts).append(text)
    commits = _commits(asked, texts, matrix, store, reporter) if texts or asked.since else {}
    found = {**dict.fromkeys(releases, ""), **commits}
    if not found:
        raise UsageError(
            "no source is named", where="--source", next_step="name one, or all of --all-releases or --since COMMIT"
        )
    return found


def _is_release(text: str, pinned: set[str]) -> bool:
    if text in pinned:
        return True
    if "/" in text or text in {".", ".."} or Path(text).is_dir():
        raise UsageError(
            f"{text} is a folder, which other machines do not have",
            where="--source",
            next_step="build it with cpuwheels build, or commit it and name the commit with --repo",
        )
    try:
        version = Version(text)
    except InvalidVersion:
        return False
    if kind_of(text) == "version" and version.local is None:
        raise SourceError(
            f"matrix.yaml pins no release {text}",
            where="--source",
            next_step=f"name one of {', '.join(sorted(pinned, key=Version))}, or a commit or tag such as v{text}",
        )
    return False


def _commits(asked: Asked, texts: Sequence[str], matrix: Matrix, store: Store, reporter: Reporter) -> dict[str, str]:
    """Return commits with the classes of their kernels."""
    remotes = repositories_of(matrix.repositories, REPOSITORY_VARIABLE, os.environ)
    ends = [asked.branch, asked.since] if asked.since else []
    names = [git_name(text, asked.branch) for text in (*texts, *ends)]
    repository = open_repository(asked.repo, remotes, names, store=store, reporter=reporter)
    found = [resolve(repository, text, branch=asked.branch).commit for text in texts]
    if asked.since:
        since, newest = (resolve(repository, text, branch=asked.branch).commit for text in (asked.since, asked.branch))
        history = history_between(repository, since, newest, first_parent=True)
        found += [commit.name for commit in reversed(history.commits)]
    commits = list(dict.fromkeys(found))
    return kernel_classes(commits, repository, store) if len(commits) > 1 else {commits[0]: ""}


def kernel_classes(commits: Sequence[str], repository: Repository, store: Store) -> dict[str, str]:
    """Return the class of each commit's kernels, as predicted from its files; those of one class have the same.

    Args:
        commits: Full hashes.
        repository: Where they are.
        store: What compilers read in earlier builds.

    Raises:
        BisectError: git cannot tell what the commits hold.
    """
    reads = next(iter(latest_reads(store, READS, Reads, 1)), None)
    (classes,) = commit_fingerprints(repository, commits, [by_reads(reads) if reads else None])
    return classes
