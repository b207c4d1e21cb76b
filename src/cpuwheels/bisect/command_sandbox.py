"""What a bisection's command or script is shown besides the wheel's environment: what the user names."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError
from cpuwheels.pipeline.user_places import UserPlaces

if TYPE_CHECKING:
    from cpuwheels.config.options import BisectOptions

TEMPORARY = "temporary"
"""Folder in a probe's for the command's home and temporary files; removed with its environment."""


def user_places(options: BisectOptions, folder: Path) -> UserPlaces:
    """Return what the user's options let the command or script see.

    Args:
        options: They were checked.
        folder: Where it runs.
    """
    named = named_paths(options.run) if options.run else [Path(options.serve).absolute()] if options.serve else []
    readable = [path.absolute() for path in options.readable]
    return UserPlaces(
        folder,
        tuple(dict.fromkeys([*named, *readable])),
        tuple(path.absolute() for path in options.writable),
        confined=not options.unconfined,
    )


def named_paths(line: str, home: Path | None = None) -> list[Path]:
    """Return the files and folders that a command names by absolute paths, but for those that a home folder is in.

    Args:
        line: For the shell; nothing if it is more than words.
        home: The home folder; that of this process if not given.
    """
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    paths = [Path(word.rpartition("=")[2]) for word in words]
    return [path for path in paths if path.is_absolute() and path.exists() and not holds_home(path, home)]


def holds_home(path: Path, home: Path | None = None) -> bool:
    """Return whether a home folder is in a folder, or is the folder."""
    return (home or Path.home()).resolve().is_relative_to(path.resolve())


def check_places(options: BisectOptions, folder: Path) -> None:
    """Refuse places that are not there, or that nothing would use, and a working folder that shows everything.

    Args:
        options: What the user chose.
        folder: Where the command runs.

    Raises:
        UsageError: They are such.
    """
    chosen = {"--readable": options.readable, "--writable": options.writable}
    runs = options.in_environment or (bool(options.serve) and Path(options.serve or "").is_file())
    given = next((name for name, paths in chosen.items() if paths), "--unconfined" if options.unconfined else "")
    if given and not runs:
        raise UsageError(
            "only a command or a script is shown places of yours",
            where=given,
            next_step="give it with --run or a script of --serve, or leave it out",
        )
    if options.unconfined and not options.in_environment:
        raise UsageError(
            "a script shares the server's network, which has nothing else in it",
            where="--unconfined",
            next_step="leave it out, and give what the script needs with --readable and --writable",
        )
    if options.unconfined and (options.readable or options.writable):
        raise UsageError(
            "an unconfined command sees everything",
            where="--unconfined",
            next_step="leave it out, or --readable and --writable",
        )
    for name, paths in chosen.items():
        for path in paths:
            if not path.exists():
                raise UsageError(f"{path} is not there", where=f"{name} {path}", next_step="correct it, or make it")
    if runs and not options.unconfined and holds_home(folder):
        raise UsageError(
            "the working folder has your home folder in it, and every commit of the range could read it",
            where=folder,
            next_step="start in a folder that has only what the command needs, or let every commit read and write all "
            "that you can: --unconfined",
        )
