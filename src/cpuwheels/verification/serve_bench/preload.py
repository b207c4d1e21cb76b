"""Libraries that the user preloads into a server, found by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.elf import MAGIC
from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def find_library(name: str, folders: Sequence[Path], option: str) -> Path:
    """Return the library of a name.

    Args:
        name: Path of a file, or a file's name without folder, such as ``libiomp5.so``.
        folders: Environments that are searched for a name, in order; then come the loader's own folders.
        option: Where it was given, for messages.

    Raises:
        UsageError: There is no such library.
    """
    if "/" in name:
        if _is_library(path := Path(name).resolve()):
            return path
        raise _missing(f"{name} is not a shared library", option)
    for folder in folders:
        if found := sorted(path for path in folder.rglob(name) if _is_library(path)):
            return found[0]
    listed = capture(["/sbin/ldconfig", "-p"]).output
    if match := re.search(rf"^\s+{re.escape(name)} .*=> (\S+)$", listed, re.MULTILINE):
        return Path(match[1])
    raise _missing(f"neither the environments of the wheels nor this system have {name}", option)


def _is_library(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _missing(what: str, option: str) -> UsageError:
    return UsageError(
        what,
        where=option,
        next_step="give the path of a file, or a name such as libiomp5.so (intel-openmp's, in the environment)",
    )
