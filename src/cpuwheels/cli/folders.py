"""Options that every command has, in front of it or behind it: its folders, and how much is printed."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cpuwheels.core.verbosity import Verbosity, set_verbosity

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.config.paths import Paths
    from cpuwheels.core.store import Store


@dataclass(frozen=True)
class Folders:
    """The values of ``--root``, ``--matrix``, ``--dist`` and ``--cache``; None for an option that is not given.

    Nothing is looked up before it is needed: help, and a command that is given its folder, need no project.
    """

    root: Path | None = None
    dist: Path | None = None
    cache: Path | None = None
    matrix: Path | None = None
    may_start_anew: bool = False
    """Whether this process runs this one command and nothing else, as its user started it."""
    is_started_anew: bool = False
    """Whether this process was started by another one of the same command, without its credentials."""

    def paths(self) -> Paths:
        """Return the folders of a run, as `resolve_paths` finds them from the working folder."""
        from cpuwheels.config.paths import resolve_paths
        from cpuwheels.core.store import default_root

        cache = self.cache.resolve() if self.cache else default_root()
        given = {"root": self.root, "matrix": self.matrix, "dist": self.dist}
        return resolve_paths(Path.cwd(), cache, **{name: path and path.resolve() for name, path in given.items()})

    def store(self) -> Store:
        """Return the stores; no project is needed for them."""
        from cpuwheels.core.store import Store, default_root

        return Store(self.cache.resolve() if self.cache else default_root())

    def output(self) -> Path:
        """Return where finished wheels appear."""
        return self.paths().dist


def pass_paths(command: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the folders of a run to a command, as its first argument; nothing is cleaned out of its stores meanwhile."""

    @click.pass_obj
    @functools.wraps(command)
    def run(folders: Folders, /, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  (whatever the command takes)
        from cpuwheels.core.filesystem import sharing

        paths = folders.paths()
        with sharing(paths.cache):
            return command(paths, *arguments, **options)

    return run


def shared_options() -> list[click.Option]:
    """Return the options; what is given behind a command replaces what is given in front of it."""

    def folder(name: str, text: str) -> click.Option:
        path = click.Path(path_type=Path)
        return click.Option([name], type=path, help=text, expose_value=False, callback=_keep_folder)

    def switch(names: list[str], text: str) -> click.Option:
        # Eager: it decides on what other options print.
        return click.Option(names, is_flag=True, is_eager=True, help=text, expose_value=False, callback=_keep_verbosity)

    return [
        folder("--matrix", "Another matrix.yaml (default: the working folder's, else the project's)."),
        folder("--dist", "Where finished wheels appear (default: dist/)."),
        folder("--cache", "The stores (default: CPUWHEELS_CACHE)."),
        folder("--root", "The folder with the project's files (default: the checkout's, else this package's own)."),
        switch(["-q", "--quiet"], "Print only results and errors."),
        switch(["-v", "--verbose"], "Print also commands and what the stores have."),
    ]


def _keep_folder(context: click.Context, option: click.Parameter, value: Path | None) -> None:
    folders = context.ensure_object(Folders)
    if value is not None:
        changes: dict[str, Any] = {str(option.name): value}
        context.obj = replace(folders, **changes)


def _keep_verbosity(context: click.Context, option: click.Parameter, value: bool) -> None:
    del context
    if value:
        set_verbosity(Verbosity.QUIET if option.name == "quiet" else Verbosity.VERBOSE)
