"""Access to the file system: errors become messages, and nobody sees a half-written file."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cpuwheels.core.errors import DiskFullError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextlib.contextmanager
def storage_errors(where: Path, *, next_step: str = "") -> Iterator[None]:
    """Turn an ``OSError`` while writing to ``where`` into a message.

    Raises:
        DiskFullError: No space or quota left.
        StoreError: Any other reason, such as missing permission or a read-only file system.
    """
    try:
        yield
    except OSError as error:
        place = error.filename or where
        if error.errno in _FULL:
            raise DiskFullError(
                f"no space left while writing {place}",
                where=where,
                next_step="free space there, or set CPUWHEELS_CACHE to a folder on a larger disk",
            ) from error
        raise StoreError(
            f"cannot use {place}: {error.strerror or error}",
            where=where,
            next_step=next_step or "make the folder writable, or set CPUWHEELS_CACHE to one that is",
        ) from error


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file in one rename: readers see the old content or the new one, never a part."""
    with replacing(path) as stream:
        stream.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream whose content becomes ``path`` in one rename, or disappears if the block fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the renames done in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_tree(path: Path) -> None:
    """Remove a file or folder, read-only folders inside included; nothing happens if it is not there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    if not path.exists():
        return
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o755)
    shutil.rmtree(path)


def link_or_copy(source: str, target: str) -> None:
    """Give a file a second name where the file system allows it, else copy it; nobody may write to either."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def free_bytes(path: Path) -> int:
    """Return the free bytes of the file system that holds ``path`` or its nearest existing parent."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
