"""What is in a folder, to see after an attack that it is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def snapshot(folder: Path, *without: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return each path below a folder, but for some of its folders: kind and mode, number of names, content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if any(path.is_relative_to(other) for other in without):
            continue
        status = path.lstat()
        if path.is_symlink():
            content = path.readlink().as_posix().encode()
        else:
            content = path.read_bytes() if path.is_file() else b""
        names = 0 if path.is_dir() else status.st_nlink
        found[str(path.relative_to(folder))] = (status.st_mode, names, content)
    return found
