"""Which commits have the same kernels, found in the repository without a checkout.

A class is a prediction of what a commit will cost. Which kernels it really gets is decided by their key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.digests import text_digest
from cpuwheels.core.errors import BisectError
from cpuwheels.kernels.executed import is_passive
from cpuwheels.kernels.fingerprint import PARTS, source_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpuwheels.kernels.depfile import Reads
    from cpuwheels.source.repository import Repository

    Way = Callable[[Mapping[str, str]], str]


def by_reads(reads: Reads) -> Way:
    """Return a way to tell kernels apart by what an earlier build depended on."""
    return lambda files: source_fingerprint(files, reads)


def by_programs(files: Mapping[str, str]) -> str:
    """Tell sources apart by what a build of them may run: those that agree share a compiler cache.

    Args:
        files: Mode and object name of each file below `PARTS`, as git has them.
    """
    return text_digest("\n".join(f"{name} {about}" for name, about in files.items() if not is_passive(name)))


def commit_fingerprints(
    repository: Repository, commits: Sequence[str], ways: Sequence[Way | None]
) -> list[dict[str, str]]:
    """Return, for each way to tell, a digest for each commit; commits with the same digest are of one class.

    Args:
        repository: Where the commits are.
        commits: Full hashes.
        ways: Each gives the digest of a commit's files below `PARTS`; with None all of them count.

    Raises:
        BisectError: git cannot tell what the commits hold.
        SourceError: Nor can the files of one of them be read.
    """
    found = _objects(repository, [f"{commit}:{part}" for commit in commits for part in PARTS])
    rows = [tuple(found[start : start + len(PARTS)]) for start in range(0, len(found), len(PARTS))]
    first = {row: commit for commit, row in zip(commits, rows, strict=True)}
    listings = {row: repository.objects(commit, *PARTS) for row, commit in first.items()} if any(ways) else {}
    classes = []
    for way in ways:
        known = {row: way(listings[row]) if way else text_digest("\n".join(row)) for row in first}
        classes.append({commit: known[row] for commit, row in zip(commits, rows, strict=True)})
    return classes


def _objects(repository: Repository, names: Sequence[str]) -> list[str]:
    """Return the object that each name means, or ``missing``."""
    asked = repository.git.ask("cat-file", "--batch-check=%(objectname)", text="".join(f"{name}\n" for name in names))
    lines = asked.output.splitlines()
    if asked.returncode != 0 or len(lines) != len(names):
        raise BisectError(
            "git cannot list the files of the commits",
            where=repository.name,
            output=asked.output[-2000:],
            next_step="git fsck shows whether the repository is whole",
        )
    return ["missing" if line.endswith(" missing") else line for line in lines]
