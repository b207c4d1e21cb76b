"""Git commands on one repository, in an environment of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.environ import closed_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.core.process import Completed

FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""A commit's whole name: SHA-1, or SHA-256 in repositories of that kind."""

PATIENCE = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=20")
"""Git gives up on a connection that moves less than 1,000 bytes/s for 20 s."""

_SECONDS = 600.0


def place_of(repository: str) -> str:
    """Return what git takes for a repository: an absolute path if it is a folder of this machine."""
    local = Path(repository).expanduser()
    return str(local.resolve()) if local.is_dir() else repository


def git_environment() -> dict[str, str]:
    """Return the environment of git commands: no password prompt, and no settings of this system."""
    return closed_environment({"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}, network=True)


@dataclass(frozen=True)
class Git:
    """A repository to query.

    Attributes:
        folder: A work tree, or a bare repository.
    """

    folder: Path
    _env: dict[str, str] = field(default_factory=git_environment, repr=False, compare=False)

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
        command = ["git", "-C", self.folder, *PATIENCE, *arguments]
        return capture(command, env=self._env | dict(env or {}), timeout=timeout, text=text)
