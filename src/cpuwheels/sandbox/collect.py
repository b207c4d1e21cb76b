"""What a confined process left, read by trusted code: plain files alone, no link followed, sizes bounded."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from cpuwheels.core.errors import SandboxError
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1 << 30
"""Of all files that a step may leave."""

MOST_FILES = 200_000

_ANSWER = 64 << 20


def require_plain(folder: Path, step: str, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
    """Refuse a folder with anything but plain files and folders in it; its processes have ended.

    A link would make whoever copies the folder read a file that the step itself cannot see, and a FIFO would make it
    wait for ever.

    Args:
        folder: What the step left.
        step: Its name.
        most_bytes: Of all files together.
        most_files: And folders.

    Raises:
        SandboxError: With the first name that is refused.
    """
    count = size = 0
    ahead = [str(folder)]
    while ahead:
        place = ahead.pop()
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            raise _refused(step, place, "no folder")
        with os.scandir(place) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                count, size = count + 1, size + status.st_size
                if stat.S_ISDIR(status.st_mode):
                    ahead.append(entry.path)
                elif not stat.S_ISREG(status.st_mode):
                    raise _refused(step, entry.path, "a link" if stat.S_ISLNK(status.st_mode) else "no plain file")
                elif status.st_mode & (stat.S_ISUID | stat.S_ISGID):
                    raise _refused(step, entry.path, "a program that would run with the rights of its owner")
                if size > most_bytes or count > most_files:
                    limit = f"{format_size(most_bytes)} in {most_files} files"
                    raise _refused(step, str(folder), f"more than the {limit} that a step may leave")


def read_left(path: Path, step: str, *, most_bytes: int = _ANSWER) -> bytes | None:
    """Return the content of a file that a step left, or None if it left none.

    Args:
        path: The file, directly in a folder of the step's own.
        step: Its name.
        most_bytes: Of the file.

    Raises:
        SandboxError: It is a link, no plain file, or larger.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(step, str(path), "a link" if path.is_symlink() else f"not readable: {error.strerror}") from error
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _refused(step, str(path), "no plain file")
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise _refused(step, str(path), f"larger than {format_size(most_bytes)}")
    return content


def _refused(step: str, where: str, what: str) -> SandboxError:
    return SandboxError(
        f"{step} left something that is {what}",
        where=where.encode(errors="surrogateescape").decode(errors="replace"),
        next_step="look at what this source does there; nothing of it was used",
    )
