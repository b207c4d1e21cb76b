"""How this program is installed, as people see it: its version, and the form of its commands."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.paths import is_packaged, project_files
from cpuwheels.core.capture import capture
from cpuwheels.core.errors import UsageError
from cpuwheels.core.git_settings import git_command, git_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_VERSION = "0.1.0"
"""Where git does not tell; the same as in pyproject.toml."""


def command_line(command: str, target: str = "", *options: str) -> str:
    """Return how a command is run: by a session of nox in a checkout, else by itself.

    Args:
        command: Its name on the command line.
        target: Target id, if the command has one session for each target.
        options: Its other arguments.
    """
    if is_packaged():
        return " ".join(filter(None, ["cpuwheels", command, target, *options]))
    session = "-".join(filter(None, [command, target]))
    return " ".join(["nox", "-s", session, *(["--", *options] if options else [])])


def require_installed(what: str, modules: Sequence[str], next_step: str) -> None:
    """Refuse to go on without libraries that only some commands need.

    Args:
        what: Who needs them, with the verb, such as ``a farm needs``.
        modules: Their names in Python.
        next_step: How they are installed.

    Raises:
        UsageError: One is not installed.
    """
    if missing := [name for name in modules if importlib.util.find_spec(name) is None]:
        raise UsageError(
            f"{what} {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            where="this Python environment",
            next_step=f"{next_step}; nox does, in a checkout",
        )


@dataclass(frozen=True)
class Checkout:
    """A checkout of this project.

    Attributes:
        commit: Its commit.
        changed: Whether files differ from it.
    """

    commit: str
    changed: bool


def own_version() -> str:
    """Return the version that this program was installed as, or would be if it runs from a checkout without that."""
    try:
        return importlib.metadata.version("cpuwheels")
    except importlib.metadata.PackageNotFoundError:
        from setuptools_scm import get_version  # noqa: PLC0415  (takes a tenth of a command's start)

        return get_version(project_files(), fallback_version=_NO_VERSION)


def version_text() -> str:
    """Return the version, and the commit if this code is a checkout's."""
    version = own_version()
    found = None if is_packaged() else find_checkout(project_files())
    return f"{version} (commit {found.commit}{' and changes' if found.changed else ''})" if found else version


def find_checkout(folder: Path) -> Checkout | None:
    """Return the checkout whose top a folder is; None for any other folder."""

    def git(*arguments: str) -> str:
        done = capture(git_command(*arguments, folder=folder), env=git_environment(), timeout=10)
        return done.output.strip() if done.returncode == 0 else ""

    top = git("rev-parse", "--show-toplevel")
    if not top or Path(top) != folder.resolve():
        return None
    changed = bool(git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"))
    commit = git("rev-parse", "HEAD")
    return Checkout(commit, changed) if commit else None
