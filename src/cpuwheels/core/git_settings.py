"""Git as it is run here: whatever a repository, its work tree or its server has, nothing of it is executed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PROTOCOLS = ("file", "git", "http", "https", "ssh")
"""How repositories may be reached. Others, such as ``ext``, run a command that their address names."""

_FSCK = (
    "badDate",
    "badEmail",
    "badName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "multipleAuthors",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
)
"""Faults that old commits of honest projects have, and that say nothing about the files."""

_VALUES = {
    # Programs that the repository names.
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",  # the user's own would change what is checked out
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    # What a repository may state of its objects without having them.
    "core.commitGraph": "false",
    "transfer.fsckObjects": "true",
    # A kept cookie file is written at the repository's wish.
    "http.saveCookies": "false",
    # Nothing goes on in the background.
    "gc.auto": "0",
    "maintenance.auto": "false",
    "fetch.writeCommitGraph": "false",
    # Git gives up on a connection that moves less than 1,000 bytes/s for 20 s.
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "20",
} | {f"fetch.fsck.{fault}": "warn" for fault in _FSCK}

_SETTINGS = tuple(part for name, value in _VALUES.items() for part in ("-c", f"{name}={value}"))

_ANYWHERE = {
    r"filter\..*\.(clean|smudge|process)": "",
    r"filter\..*\.required": "false",
    r"http\..*\.savecookies": "false",
}
"""What is taken back wherever it is configured: a filter, such as LFS's, gives other bytes than the commit has."""
_IN_REPOSITORY = {
    r"http\..*cookiefile": "",
    r"core\.sshcommand": "ssh",
    r"core\.askpass": "",
    r"core\.alternaterefscommand": "true",
}
"""What is taken back where the repository configures it; the user's own settings are trusted."""


_REFUSED = r"remote\..*\.(uploadpack|vcs)|core\.gitproxy"
"""What cannot be taken back: of several values git uses the first."""


def git_environment() -> dict[str, str]:
    """Return the environment of git commands: no prompt, no settings of this system, no objects but the real ones."""
    own = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null/none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_PAGER": "cat",
    }
    return closed_environment(own, network=True)


def git_command(*arguments: str | Path, folder: Path | None = None, taken_back: Sequence[str] = ()) -> list[str | Path]:
    """Return a git command with the settings of this module.

    Args:
        arguments: After ``git``. What others name (a revision, an address) has to stand where git takes no option.
        folder: The repository.
        taken_back: What `executed_settings` returned for it.
    """
    place: list[str | Path] = ["-C", folder] if folder is not None else []
    return ["git", *place, *_SETTINGS, *taken_back, *arguments]


def executed_settings(folder: Path, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the options that take back what a repository's own configuration would have executed; None if it has none.

    Reading the configuration executes nothing of it.

    Args:
        folder: The repository.
        env: As of `git_environment`.

    Raises:
        SourceError: A name in it cannot be taken back.
    """
    listed = capture(git_command("config", "--list", "--show-scope", "--name-only", "-z", folder=folder), env=env)
    if listed.returncode != 0:
        return None
    parts = listed.output.split("\0")
    found: dict[str, str] = {}
    for scope, name in zip(parts[::2], parts[1::2], strict=False):
        own = scope in {"local", "worktree"}
        for pattern, value in (_ANYWHERE | (_IN_REPOSITORY if own else {})).items():
            if re.fullmatch(pattern, name, re.IGNORECASE | re.DOTALL):
                found[name] = value
        if own and re.fullmatch(r"credential\..*helper", name, re.IGNORECASE | re.DOTALL):
            found["credential.helper"] = ""  # an empty one forgets those before it, whatever they are for
        if (own and re.fullmatch(_REFUSED, name, re.IGNORECASE | re.DOTALL)) or (name in found and "=" in name):
            raise SourceError(
                f"the git configuration has the setting {name!r:.200}, which git cannot be told to leave out",
                where=folder,
                next_step="remove it: git config --unset",
            )
    return tuple(part for name, value in found.items() for part in ("-c", f"{name}={value}"))
