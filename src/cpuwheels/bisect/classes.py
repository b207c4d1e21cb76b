"""Which commits have the same kernels, told from the repository without checking anything out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.errors import BisectError
from cpuwheels.kernels.request import KERNEL_INPUTS
from cpuwheels.keys import text_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.kernels.reads import Reads
    from cpuwheels.source.repository import Repository

PINS = "requirements/cpu.txt"
"""Names torch, which kernels are compiled for."""


def kernel_classes(repository: Repository, commits: Sequence[str], reads: Reads | None) -> dict[str, str]:
    """Return a digest for each commit; commits with the same digest have the same kernels.

    Args:
        repository: Where the commits are.
        commits: Full hashes.
        reads: What an earlier build depended on; without it every file that kernels could depend on counts.

    Raises:
        BisectError: git cannot tell.
    """
    parts = (*KERNEL_INPUTS, PINS)
    found = _objects(repository, [f"{commit}:{part}" for commit in commits for part in parts])
    rows = [tuple(found[start : start + len(parts)]) for start in range(0, len(found), len(parts))]
    if reads is None:
        return {commit: text_digest("\n".join(row)) for commit, row in zip(commits, rows, strict=True)}
    known: dict[tuple[str, ...], str] = {}
    for commit, row in zip(commits, rows, strict=True):
        if row not in known:
            known[row] = _digest(_listing(repository, commit, parts), reads)
    return {commit: known[row] for commit, row in zip(commits, rows, strict=True)}


def _objects(repository: Repository, names: Sequence[str]) -> list[str]:
    """Return the object that each name means, or ``missing``."""
    asked = repository.git.ask("cat-file", "--batch-check=%(objectname)", text="".join(f"{name}\n" for name in names))
    lines = asked.output.splitlines()
    if asked.returncode != 0 or len(lines) != len(names):
        raise BisectError(
            "git does not tell the files of the commits",
            where=repository.name,
            output=asked.output[-2000:],
            next_step="git fsck tells whether the repository is whole",
        )
    return ["missing" if line.endswith(" missing") else line for line in lines]


def _listing(repository: Repository, commit: str, parts: Sequence[str]) -> dict[str, str]:
    """Return mode and object of each file below some parts of a commit."""
    listed = repository.git.ask("ls-tree", "-r", "-z", commit, "--", *parts)
    if listed.returncode != 0:
        raise BisectError(
            f"git does not list the files of {commit}",
            where=repository.name,
            output=listed.output,
            next_step="git fsck tells whether the repository is whole",
        )
    rows = (row.partition("\t") for row in listed.output.split("\0") if row)
    return {name: " ".join(about.split()[::2]) for about, _, name in rows}


def _digest(files: Mapping[str, str], reads: Reads) -> str:
    names: dict[str, set[str]] = {folder: set() for folder in reads.folders}
    for path in files:
        parts = path.split("/")
        for depth in range(len(parts)):
            if (folder := "/".join(parts[:depth])) in names:
                names[folder].add(parts[depth])
    content = [f"{name} {files.get(name, 'missing')}" for name in (*reads.files, PINS)]
    return text_digest("\n".join([*content, *(f"{folder}/ {sorted(found)}" for folder, found in names.items())]))
