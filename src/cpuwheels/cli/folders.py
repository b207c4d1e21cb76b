"""The folders of a run, from the options in front of a command; looked up when the command needs them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.config.paths import Paths
    from cpuwheels.core.store import Store


@dataclass(frozen=True)
class Folders:
    """The values of ``--root``, ``--dist`` and ``--cache``; None for an option that is not given.

    Nothing is looked up before it is needed: help, and a command that is given its folder, need no project.
    """

    root: Path | None = None
    dist: Path | None = None
    cache: Path | None = None

    def paths(self) -> Paths:
        """Return the folders of a run, the project's from the working folder upwards if it is not given.

        Raises:
            UsageError: No folder there has a matrix.yaml.
        """
        from cpuwheels.config.paths import Paths
        from cpuwheels.core.store import default_root

        cache = self.cache.resolve() if self.cache else default_root()
        return Paths(root=self._project(), cache=cache, dist=self.output())

    def store(self) -> Store:
        """Return the stores; no project is needed for them."""
        from cpuwheels.core.store import Store, default_root

        return Store(self.cache.resolve() if self.cache else default_root())

    def output(self) -> Path:
        """Return where finished wheels appear.

        Raises:
            UsageError: As for `paths`, if ``--dist`` is not given.
        """
        return self.dist.resolve() if self.dist else self._project() / "dist"

    def _project(self) -> Path:
        from cpuwheels.config.paths import find_root

        return self.root.resolve() if self.root else find_root(Path.cwd())


def pass_paths(command: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the folders of a run to a command, as its first argument."""

    @click.pass_obj
    @functools.wraps(command)
    def run(folders: Folders, /, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  (whatever the command takes)
        return command(folders.paths(), *arguments, **options)

    return run
