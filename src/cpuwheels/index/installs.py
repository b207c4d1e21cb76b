"""How a page for people shows installation: a command for uv and one for pip."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cpuwheels.index.entry import VARIANT
from cpuwheels.index.layout import lasting_view, target_order, wheel_path
from cpuwheels.pipeline.pylock import FILE as LOCK
from cpuwheels.wheel.install_commands import locked_commands, pip_command, uv_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpuwheels.index.commit_pages import Commits
    from cpuwheels.index.entry import Entry

ADDRESS = "INDEX_URL"
"""Replaces the index's address, which only the page's reader knows."""


@dataclass(frozen=True)
class Install:
    """How one version is installed.

    Attributes:
        targets: Those that have it.
        commands: By the program's name.
    """

    targets: tuple[str, ...]
    commands: dict[str, str]


def installs_of(entries: Iterable[Entry], view: str | None = None) -> list[Install]:
    """Return how wheels are installed, each version once.

    Args:
        entries: The wheels.
        view: Folder of the view that lists them; if not given, for each wheel the view that lists it for the longest.
    """
    return _installs((entry.target, entry.version, view or lasting_view(entry)) for entry in entries)


def locked_installs(entry: Entry) -> dict[str, str]:
    """Return how a wheel is installed from its lock, by the program's name; nothing if it has none."""
    if entry.lock is None:
        return {}
    folder = f"{ADDRESS}/{posixpath.dirname(wheel_path(entry))}"
    return locked_commands(folder, entry.filename, LOCK, by_url=entry.lock.by_url)


def newest_installs(commits: Commits, newest: Sequence[Entry]) -> list[Install]:
    """Return how the newest wheel of each target is installed; without a newest one, the newest commit's.

    Args:
        commits: The page of the newest commits.
        newest: The wheels of the newest view.
    """
    if newest:
        return installs_of(newest)
    row = next((row for row in commits.newest if row.wheels), None)
    wheels = row.wheels.items() if row else ()
    return _installs(
        (target, str(parse_wheel_filename(wheel.filename)[1]), row.name) for target, wheel in wheels if row
    )


def _installs(wheels: Iterable[tuple[str, str, str]]) -> list[Install]:
    """Return how wheels are installed: each a target, a version and a view."""
    targets: dict[tuple[str, str], list[str]] = {}
    for target, version, view in sorted(wheels, key=lambda one: (target_order(one[0]), *one[1:])):
        targets.setdefault((version, f"{ADDRESS}/{view}/{VARIANT}"), []).append(target)
    return [
        Install(tuple(dict.fromkeys(of)), {"uv": uv_command(url, version), "pip": pip_command(url, version)})
        for (version, url), of in targets.items()
    ]
