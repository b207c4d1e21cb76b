"""Reading a file that others may have made: never through a link, never a FIFO or a device, never without end."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotPlainError(OSError):
    """What has the name is a link, a FIFO, a folder or a device, or has more bytes than it may.

    It has ``errno``, ``strerror`` and ``filename`` like any other ``OSError``.
    """


def open_plain(path: Path | str) -> int:
    """Return a descriptor to read a regular file; the caller closes it.

    A link in the last place of the path is refused; those of the folders above are followed.

    Raises:
        NotPlainError: It is something else than a regular file.
        OSError: It is not there or cannot be read.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPlainError(errno.ELOOP, "it is a symbolic link", os.fspath(path)) from error
        if error.errno == errno.ENXIO:  # a socket
            raise NotPlainError(errno.ENXIO, "it is not a regular file", os.fspath(path)) from error
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise NotPlainError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def read_plain(path: Path | str, limit: int) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: The file; a link is refused.
        limit: How many bytes it may have at most.

    Raises:
        NotPlainError: It is something else than a regular file, or has more bytes.
        OSError: It is not there or cannot be read.
    """
    handle = open_plain(path)
    try:
        parts: list[bytes] = []
        left = limit + 1  # what is read counts, since a file may grow
        while left and (part := os.read(handle, min(left, _CHUNK))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(handle)
    if not left:
        raise NotPlainError(errno.EFBIG, f"it has more than {limit:,} bytes", os.fspath(path))
    return b"".join(parts)
