"""A repository of vLLM: which commit a name means, and a commit's files; nothing in it is changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from cpuwheels.core.errors import SourceError
from cpuwheels.core.text import first_lines
from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.fetch.git_objects import misnamed_objects
from cpuwheels.source.result import epoch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cpuwheels.fetch.git import Git

_HASH = re.compile(r"[0-9a-fA-F]{4,64}")
_OWN, _REMOTE = ("refs/tags/{}", "refs/heads/{}"), ("refs/remotes/origin/{}",)
_SHOWN = 5
_SUBMODULE = "160000"


@dataclass(frozen=True)
class Repository:
    """A repository in which commits are looked up.

    Attributes:
        git: Runs git commands on it.
        name: For people: its path or address.
    """

    git: Git
    name: str

    def commit(self, text: str) -> str:
        """Return the full hash of the commit that a hash, a tag, a branch or another revision means.

        Raises:
            SourceError: None, or more than one.
        """
        if FULL_HASH.fullmatch(text):
            if self.has(text):
                return text
            raise self._unknown(text)
        named = self._named(text, _OWN) or self._named(text, _REMOTE)
        if len(set(named.values())) > 1:
            raise SourceError(
                f"{text!r} is the name of {' and of '.join(named)}, which are different commits",
                where=self.name,
                next_step=f"give the whole name, such as {next(iter(named))}",
            )
        if named:
            return next(iter(named.values()))
        found = self.git.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
        if found.returncode == 0:
            return found.output.strip()
        if _HASH.fullmatch(text) and len(candidates := self._beginning_with(text)) > 1:
            raise SourceError(
                f"{len(candidates)} commits begin with {text}",
                where=self.name,
                output="\n".join(first_lines(candidates, _SHOWN)),
                next_step="give more digits",
            )
        raise self._unknown(text)

    def epoch(self, commit: str) -> int:
        """Return when a commit says it was made, in seconds since 1970; within what `epoch_of` allows.

        Raises:
            SourceError: It is not there.
        """
        answer = self.git.ask("log", "-1", "--format=%ct", commit)
        if answer.returncode != 0:
            raise self._unknown(commit)
        text = answer.output.strip()
        return epoch_of(int(text) if text.isascii() and text.isdecimal() else 0)

    def subject(self, commit: str) -> str:
        """Return the first line of a commit's message; nothing if the commit is not there."""
        return self.git.ask("log", "-1", "--format=%s", commit).output.strip()

    def changed(self, commit: str) -> list[str]:
        """Return the names of the files that a commit changed against its first parent, sorted."""
        asked = self.git.ask(
            "diff-tree", "-r", "-z", "-m", "--first-parent", "--root", "--no-commit-id", "--name-only", commit
        )
        return sorted(name for name in asked.output.split("\0") if name) if asked.returncode == 0 else []

    def has(self, commit: str) -> bool:
        """Return whether a commit is there, by its hash or a reference's full name."""
        return self.git.ask("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    def publishes(self, commit: str) -> bool:
        """Return whether a commit is on one of the repository's branches or below one of its tags.

        Servers such as GitHub's also give the commits of every fork when they are asked for by their hash.
        """
        beyond = self.git.ask("rev-list", "--max-count=1", commit, "--not", "--branches", "--remotes", "--tags")
        return beyond.returncode == 0 and not beyond.output.strip()

    def objects(self, commit: str, *parts: str) -> dict[str, str]:
        """Return mode and object name of each of a commit's files and links, by their sorted paths.

        Args:
            commit: Full hash.
            parts: Files and folders that are listed; all if none is given.

        Raises:
            SourceError: git cannot tell.
        """
        answer = self.git.ask("ls-tree", "-r", "-z", commit, "--", *parts)
        if answer.returncode != 0:
            raise self._broken(commit, answer.output)
        rows = sorted((row.partition("\t") for row in answer.output.split("\0") if row), key=itemgetter(2))
        # A row begins with mode, kind and object; the folder of a submodule is empty.
        return {path: " ".join(about.split()[::2]) for about, _, path in rows if not about.startswith(_SUBMODULE)}

    def check_out(self, commit: str, folder: Path, since: str | None = None) -> None:
        """Write a commit's files into an empty folder, with an index of its own.

        Args:
            commit: Full hash.
            folder: Where they go.
            since: Another commit; files that are the same there are left out.

        Raises:
            SourceError: git cannot.
        """
        own = self.git.ask("rev-parse", "--git-path", "info/attributes").output.strip()
        if own and _says_something(self.git.folder / own):
            raise SourceError(
                f"{own} of the repository changes what is checked out",
                where=self.name,
                next_step="move the file away, or give another clone",
            )
        answer = self.git.check_out(commit, folder, since)
        if answer.returncode != 0:
            raise self._broken(commit, answer.output)

    def check_objects(self, commit: str, blobs: Iterable[str]) -> None:
        """Check that a commit, its folders and some of its files have the content that they are named after.

        git itself does not compare them when it reads, so a clone can be made to have anything under a commit's name.

        Args:
            commit: Full hash.
            blobs: Object names of files.

        Raises:
            SourceError: One of them has other content, or is not there.
        """
        root = self.git.ask("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
        listed = self.git.ask("ls-tree", "-r", "-d", "-z", commit)
        if root.returncode != 0 or listed.returncode != 0:
            raise self._broken(commit, root.output + listed.output)
        rows = [row.partition("\t")[0].split() for row in listed.output.split("\0") if row]
        trees = {name for _, kind, name in rows if kind == "tree"}
        if wrong := misnamed_objects(self.git, sorted({commit, root.output.strip(), *trees, *blobs})):
            raise SourceError(
                f"{len(wrong)} objects of commit {commit} do not have the content that they are named after",
                where=self.name,
                output="\n".join(first_lines(wrong, _SHOWN)),
                next_step="the repository is damaged or forged: clone it again from where it is published",
            )

    def _broken(self, commit: str, output: str) -> SourceError:
        return SourceError(
            f"git cannot check out {commit}",
            where=self.name,
            output=output,
            next_step="read git's message; git fsck checks whether the repository is whole",
        )

    def _named(self, text: str, patterns: Sequence[str]) -> dict[str, str]:
        """Return the commits of the references that a name can be short for."""
        names = [pattern.format(text) for pattern in patterns]
        asked = self.git.ask("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", *names)
        rows = [line.split() for line in asked.output.splitlines()] if asked.returncode == 0 else []
        return {row[0]: row[-1] for row in rows if row[0] in names}

    def _beginning_with(self, digits: str) -> list[str]:
        found = self.git.ask("rev-parse", f"--disambiguate={digits.lower()}").output.split()
        kinds = (self.git.ask("cat-file", "-t", name).output.strip() for name in found)
        return [name for name, kind in zip(found, kinds, strict=True) if kind == "commit"]

    def _unknown(self, text: str) -> SourceError:
        return SourceError(
            f"there is no commit {text!r}",
            where=self.name,
            next_step="give a hash, a tag or a branch that is there; git log shows them",
        )


def _says_something(attributes: Path) -> bool:
    """Return whether a file of git attributes has a line that is no comment."""
    try:
        lines = attributes.read_bytes().splitlines()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return any(line.strip() and not line.lstrip().startswith(b"#") for line in lines)
