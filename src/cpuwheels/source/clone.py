"""The store's own clone of vLLM, or another project: its history, fetched once, and contents as they are needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import DownloadError, SourceError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.git_settings import git_environment
from cpuwheels.fetch.git import FULL_HASH, Git, count_objects, place_of, remove_leftovers
from cpuwheels.fetch.requests import current, is_locked
from cpuwheels.source.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

REPOSITORY_VARIABLE = "CPUWHEELS_VLLM_REPO"


@dataclass(frozen=True)
class Project:
    """A project that is cloned.

    Attributes:
        name: For people.
        settings: How the user names another repository of it.
    """

    name: str
    settings: str


VLLM = Project("vLLM", f"with --repo or in {REPOSITORY_VARIABLE}")
_REMOTE = "origin"
_FETCH_SECONDS = 3600.0
_BROKEN = 128
"""Status of a git that finds no repository, or one that it cannot use."""
_REFUSED = re.compile(r"\bobject [0-9a-f]{40,64}: [a-z][A-Za-z]+: ")
"""What git prints of an object that it does not take (fetch.fsckObjects), such as a tree with a folder ``.git``."""
_REFERENCES = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")


def open_repository(
    clone: Path | None, addresses: Sequence[str], wanted: Sequence[str], *, store: Store, reporter: Reporter
) -> Repository:
    """Return a clone of this machine if there is one, else the store's own clone of the first remote that answers.

    Args:
        clone: The clone.
        addresses: Remotes, tried in order.
        wanted: Hashes, tags or branches that are needed of a remote.
        store: Where the clones of remotes are kept.
        reporter: Reports which remote is asked.

    Raises:
        SourceError: There is none.
    """
    if clone is not None:
        return local_repository(clone.expanduser().resolve())
    return remote_repository(addresses, wanted, store=store, reporter=reporter)


def local_repository(folder: Path) -> Repository:
    """Return a repository of this machine.

    Raises:
        SourceError: There is none.
    """
    # A partial clone would ask its own remote for what it lacks, which no list has.
    git = Git(folder, git_environment() | ({"GIT_ALLOW_PROTOCOL": "file"} if is_locked() else {}))
    found = git.ask("rev-parse", "--git-dir")
    if not folder.is_dir() or found.returncode != 0:
        raise SourceError(
            f"{folder} is not a git repository",
            where="--repo",
            output=found.output if folder.is_dir() else "",
            next_step="give the path of a clone of vLLM",
        )
    return Repository(git, str(folder))


def remote_repository(
    addresses: Sequence[str], wanted: Sequence[str], *, store: Store, reporter: Reporter, project: Project = VLLM
) -> Repository:
    """Return the store's clone of the first remote that answers, with the commits that are wanted.

    It is a blobless partial clone: history and names are fetched, a file's content when a commit is checked out. The
    remote is asked unless every wanted commit is named by a full hash or a tag that is there. Where it does not
    answer, the clone is used as it was last fetched, and that is announced.

    Args:
        addresses: Remotes, tried in order.
        wanted: Hashes, tags or branches.
        store: Where the clones are kept.
        reporter: Reports which remote is asked.
        project: What the remotes have.

    Raises:
        DownloadError: None of them answers and none was fetched before.
        SourceError: Likewise, and git refused what one sent.
    """
    clones = [_Clone(address, store, project) for address in addresses]
    faults = []
    for clone in clones:
        with store.lock("git", clone.folder.name):
            fault = clone.update(wanted, reporter)
        if not fault:
            return clone.repository
        faults.append(f"{clone.repository.name}: {fault}")
    for clone in clones:
        if when := clone.fetched():
            reporter.announce(f"{clone.repository.name} cannot be reached; its commits are as they were on {when}")
            return clone.repository
    if any(map(_REFUSED.search, faults)):
        raise SourceError(
            f"{project.name} has objects that git refuses",
            where=", ".join(addresses),
            output="\n".join(faults),
            next_step=f"name another repository or clone {project.settings}",
        )
    raise DownloadError(
        f"{project.name} cannot be fetched",
        where=", ".join(addresses),
        output="\n".join(faults),
        next_step=f"make one of them reachable, or name a clone {project.settings}",
    )


class _Clone:
    def __init__(self, address: str, store: Store, project: Project) -> None:
        self._address = place_of(address)
        self._project = project.name
        self.folder = store.root / "git" / f"{project.name.lower()}-{make_key(address=self._address)}"
        self.repository = Repository(Git(self.folder), address)

    def update(self, wanted: Sequence[str], reporter: Reporter) -> str:
        """Fetch what is not there; return git's message if that fails."""
        if requests := current():
            requests.repository(self._address)  # at the latest for the content of files, when a commit is checked out
        count_objects(self.folder, self._address)
        if self.fetched() and all(map(self._is_settled, wanted)):
            return ""
        reporter.info(f"fetching {self._project}'s history from {self.repository.name}")
        if fault := self._make() or self._fetch(*_REFERENCES):
            return fault
        for name in wanted:
            # Of no branch and no tag, such as a pull request's. If it is not there, that is reported when it is used.
            if FULL_HASH.fullmatch(name) and not self.repository.has(name):
                self._fetch(name)
        return ""

    def fetched(self) -> str:
        """Return when it was last fetched; nothing if it never was."""
        stamp = self.folder / "fetched"
        if not stamp.is_file():
            return ""
        return datetime.fromtimestamp(stamp.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")

    def _make(self) -> str:
        with storage_errors(self.folder):
            if (self.folder / "HEAD").exists():
                remove_leftovers(self.folder)
                if self.repository.git.ask("rev-parse", "--git-dir").returncode == _BROKEN:
                    remove_tree(self.folder)
            self.folder.mkdir(parents=True, exist_ok=True)
        settings = {"url": self._address, "promisor": "true", "partialclonefilter": "blob:none"}
        commands = [["init", "--quiet", "--bare"]]  # does no harm to one that is there
        commands += [["config", f"remote.{_REMOTE}.{name}", value] for name, value in settings.items()]
        return next(filter(None, (self._do(command) for command in commands)), "")

    def _fetch(self, *references: str) -> str:
        fault = self._do(["fetch", "--quiet", "--no-tags", "--filter=blob:none", "--", _REMOTE, *references])
        if not fault:
            with storage_errors(self.folder):
                (self.folder / "fetched").touch()
        return fault

    def _do(self, command: Sequence[str]) -> str:
        done = self.repository.git.ask(*command, timeout=_FETCH_SECONDS)
        said = done.output.strip().splitlines() or [f"git status {done.returncode}"]
        return said[0] if done.returncode else ""

    def _is_settled(self, name: str) -> bool:
        """Return whether a name means the same for ever, and is there."""
        return self.repository.has(name if FULL_HASH.fullmatch(name) else f"refs/tags/{name}")
