"""Git commands on one repository, in an environment of their own."""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.errors import SourceError
from cpuwheels.core.git_settings import PROTOCOLS, executed_settings, git_command, git_environment
from cpuwheels.core.usage import GIT, current_usage
from cpuwheels.fetch.requests import is_remote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.core.process import Completed

FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""A commit's whole name: SHA-1, or SHA-256 in repositories of that kind."""

_SECONDS = 600.0
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z0-9+.-]+)(?:://|::)")
_UNUSED_SECONDS = 24 * 3600.0
"""Age at which a pack that a killed fetch left unfinished is removed."""

# Whatever a repository or its owner has configured, files are checked out as they were committed.
_AS_COMMITTED = tuple(
    part
    for setting in (
        "core.autocrlf=false",
        "core.eol=lf",
        "core.symlinks=true",
        "core.fileMode=true",
        "core.sparseCheckout=false",
        "core.protectHFS=true",
        "core.protectNTFS=true",
    )
    for part in ("-c", setting)
)


def place_of(repository: str) -> str:
    """Return what git takes for a repository: an absolute path if it is a folder of this machine.

    Raises:
        SourceError: git would take it for an option, or run what it names.
    """
    local = Path(repository).expanduser()
    if repository.strip() and local.is_dir():
        return str(local.resolve())
    scheme = _SCHEME.match(repository)
    if scheme and (scheme["scheme"].lower() not in PROTOCOLS or scheme[0].endswith("::")):
        raise SourceError(
            f"{repository!r:.200} is not an address that git repositories are fetched from",
            where="the repository's address",
            next_step=f"give the path of a clone, or an address that begins with {', '.join(PROTOCOLS)}",
        )
    if repository.startswith("-") or not repository.isprintable() or not repository.strip():
        raise SourceError(
            f"{repository!r:.200} is neither an address nor a folder",
            where="the repository's address",
            next_step="give the path of a clone, or an address such as https://github.com/vllm-project/vllm",
        )
    return repository


@dataclass(frozen=True)
class Git:
    """A repository to query.

    Attributes:
        folder: A work tree, or a bare repository.
    """

    folder: Path
    env: dict[str, str] = field(default_factory=git_environment, repr=False, compare=False)
    _taken_back: list[tuple[str, ...]] = field(default_factory=list, repr=False, compare=False)

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return a git command on the repository in which nothing that it configures is executed.

        Raises:
            SourceError: A name in its configuration cannot be taken back.
        """
        if not self._taken_back and (found := executed_settings(self.folder, self.env)) is not None:
            self._taken_back.append(found)
        return git_command(*arguments, folder=self.folder, taken_back=self._taken_back[0] if self._taken_back else ())

    def ask(
        self, *arguments: str | Path, text: str = "", env: Mapping[str, str] | None = None, timeout: float = _SECONDS
    ) -> Completed:
        """Run a git command and return its answer.

        Args:
            arguments: After ``git``.
            text: What it reads.
            env: Variables on top of the environment.
            timeout: Seconds after which it is ended, with status 124.
        """
        return capture(self.command(*arguments), env=self.env | dict(env or {}), timeout=timeout, text=text)

    def check_out(self, commit: str, folder: Path, since: str | None = None) -> Completed:
        """Write a commit's files into an empty folder, with an index of its own, and return git's answer.

        Args:
            commit: Full hash.
            folder: Where they go.
            since: Another commit; files that are the same there are left out.
        """
        place: list[str] = [*_AS_COMMITTED, f"--work-tree={folder}"]
        # With two trees read-tree writes what differs; in a partial clone it fetches all of that at once.
        steps = (
            [["read-tree", since], ["read-tree", "-m", "-u", since, commit]]
            if since
            else [["read-tree", "--reset", "-u", commit]]
        )
        with tempfile.TemporaryDirectory() as scratch:
            for command in steps:
                answer = self.ask(*place, *command, env={"GIT_INDEX_FILE": f"{scratch}/index"})
                if answer.returncode != 0:
                    break
        return answer


def count_objects(folder: Path, repository: str) -> None:
    """Count, for the run, what a bare repository of ours is about to fetch; see `cpuwheels.core.usage`.

    Args:
        folder: The repository of ours.
        repository: What it fetches from.
    """
    current_usage().growing(folder / "objects", GIT, fetched_by=GIT if is_remote(repository) else "")


def remove_leftovers(folder: Path) -> None:
    """Remove what killed git commands left in a bare repository of ours; the caller holds its lock in the store.

    Raises:
        OSError: It cannot be removed.
    """
    for path in (*folder.glob("*.lock"), *folder.glob("refs/**/*.lock"), *folder.glob("objects/*/*.lock")):
        path.unlink(missing_ok=True)
    oldest = time.time() - _UNUSED_SECONDS
    for path in (*folder.glob("objects/pack/tmp_*"), *folder.glob("objects/??/tmp_obj_*")):
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_mtime < oldest:
                path.unlink()
