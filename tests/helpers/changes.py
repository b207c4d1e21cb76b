"""What has changed in the repository since a commit that has landed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAIN = ("origin/main", "main")


@dataclass(frozen=True)
class Change:
    """The files of a change.

    Attributes:
        files: Paths from the repository's folder; None if the commit to compare with is not there.
        against: What they were compared with, or why they were not.
    """

    files: frozenset[str] | None
    against: str


def changed_files(root: Path, base: str = "") -> Change:
    """Return what differs from a landed commit, with what is not committed yet.

    Args:
        root: The repository.
        base: The landed commit. The default is where the branch left main; on main itself, the commit before.
    """
    revision = _landed(root, base)
    if revision is None:
        there = f"there is no commit {base!r}" if base else "there is no main and no earlier commit"
        return Change(None, f"{there} in this clone")
    differing = _lines(root, "diff", "--name-only", "--no-renames", revision)
    new = _lines(root, "ls-files", "--others", "--exclude-standard")
    return Change(frozenset(differing + new), revision[:12])


def _landed(root: Path, base: str) -> str | None:
    """Return the hash of the commit to compare with."""
    head = _revision(root, "HEAD")
    for name in (base,) if base else MAIN:
        found = _git(root, "merge-base", name, "HEAD").strip() if _revision(root, name) else ""
        if found and found != head:
            return found
        if found:
            return _revision(root, "HEAD^")
    return None if base else _revision(root, "HEAD^")


def _revision(root: Path, name: str) -> str | None:
    return _git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip() or None


def _lines(root: Path, *arguments: str) -> list[str]:
    return [name for name in _git(root, *arguments, "-z").split("\0") if name]


def _git(root: Path, *arguments: str) -> str:
    """Return what git prints; nothing if it fails."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
