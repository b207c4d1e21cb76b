"""The compiler flags of each target of upstream's CMake project, from its compilation database."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from cpuwheels.core.filesystem import write_atomic
from cpuwheels.kernels.memory.costs import job_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.kernels.workspace import Workspace

FILE = "flags.json"
"""Next to finished kernels; older ones have none."""

_FLAG = re.compile(r"-(?:[OfmWgD]|std=|nostd|pthread)\S*")
_QUOTED = re.compile(r"['\"\\]")
_FLAGS: TypeAdapter[dict[str, tuple[str, ...]]] = TypeAdapter(dict[str, tuple[str, ...]])


def common_flags(compilations: Iterable[Mapping[str, str]], build: str) -> dict[str, tuple[str, ...]]:
    """Return the flags that all files of each CMake target are compiled with, in the order of its first file.

    Folders to search and flags with an absolute path are left out: they name places of the building machine.

    Args:
        compilations: Entries of a compilation database: ``command`` and ``output``.
        build: The build folder; outputs may begin with it.
    """
    found: dict[str, list[str]] = {}
    for entry in compilations:
        group = job_class(entry.get("output", "").removeprefix(f"{build}/"))
        target = group.rsplit("/", 1)[-1].removesuffix(".dir")
        command = entry["command"]
        words = shlex.split(command) if _QUOTED.search(command) else command.split()  # shlex is slow
        flags = dict.fromkeys(word for word in words if _FLAG.fullmatch(word) and "=/" not in word)
        found[target] = [flag for flag in found.get(target, flags) if flag in flags]
    return {target: tuple(flags) for target, flags in sorted(found.items())}


def flags_of(workspaces: Sequence[Workspace]) -> dict[str, tuple[str, ...]]:
    """Return the flags of every target; a kernel library has the name that it has in the wheel."""
    flags: dict[str, tuple[str, ...]] = {}
    for workspace in workspaces:
        names = workspace.configuration.names()
        for target, found in common_flags(workspace.compilations(), str(workspace.build)).items():
            if target in names or workspace.is_first:
                flags[names.get(target, target)] = found
    return flags


def write_flags(flags: Mapping[str, tuple[str, ...]], folder: Path) -> None:
    """Write the flags of targets into a folder."""
    write_atomic(folder / FILE, _FLAGS.dump_json(dict(sorted(flags.items())), indent=1))


def read_flags(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return a folder's flags by target or library; nothing for kernels that were built before flags were kept."""
    path = folder / FILE
    return _FLAGS.validate_json(path.read_bytes()) if path.is_file() else {}
