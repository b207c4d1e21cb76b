"""Access to the file system: errors become messages, and nobody sees a half-written file."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cpuwheels.core.errors import DiskFullError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 512
"""Bytes of a unit of ``st_blocks`` (POSIX leaves it open; Linux and macOS have this one)."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
_TOO_MANY_FILES = {errno.EMFILE, errno.ENFILE}
_ATTEMPTS = 100
"""How often a folder is removed that others remove at the same time."""


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
        if error.errno in _TOO_MANY_FILES:
            next_step = "allow more open files: ulimit -n 4096"
        elif error.errno in _NO_LOCKS:
            next_step = "its file system has no file locks: set CPUWHEELS_CACHE to a folder on a local disk"
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
    make_folders(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folders(folder: Path) -> None:
    """Make a folder and those above it, as far as they are not there; a power cut does not take them away again."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def replace_tree(source: Path, target: Path) -> None:
    """Move a file or folder to a place, on the same file system, and remove what was there.

    If that is cut short, the old one is there, or the new one, or nothing: never a part of one of them. They survive a
    power cut; what is in ``source`` must have been synced.
    """
    aside = target.with_name(f".old-{target.name}")
    remove_tree(aside)  # of one that was cut short
    if source.is_dir() or target.is_dir():  # a folder takes the place of nothing but an empty one
        with contextlib.suppress(FileNotFoundError):
            target.rename(aside)
            sync_folder(target.parent)
    source.replace(target)
    sync_folder(target.parent)
    remove_tree(aside)


@contextlib.contextmanager
def appearing(place: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of another one at the end, as a whole; never if the block fails.

    Args:
        place: Where it appears; what is there is replaced.

    Raises:
        OSError: It cannot be written.
    """
    make_folders(place.parent)
    fresh = place.with_name(f".new-{place.name}")
    remove_tree(fresh)  # of a run that was killed
    fresh.mkdir()
    try:
        yield fresh
        sync_tree(fresh)
        replace_tree(fresh, place)
    finally:
        remove_tree(fresh)


def sync_tree(folder: Path) -> None:
    """Make the files below a folder, and their names there, survive a power cut."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = Path(place, name)
            if not path.is_symlink():
                _sync(path)
        _sync(Path(place))


def sync_folder(folder: Path) -> None:
    """Make the renames done in a folder survive a power cut."""
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_tree(path: Path) -> None:
    """Remove a file or folder, read-only folders inside included; what is gone already, or goes meanwhile, is fine."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(FileNotFoundError):
                Path(folder).chmod(0o755)
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)
                return
    # Somebody else removes it at the same time.


def empty_folder(path: Path) -> None:
    """Remove everything in a folder; who holds its lock still does."""
    for each in path.iterdir():
        remove_tree(each)


def changed_at(path: Path) -> float:
    """Return when a file or folder was changed last, as a Unix time; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return path.lstat().st_mtime
    return 0.0


def last_change_below(folder: Path) -> float:
    """Return when a folder, or anything below it, was changed last, as a Unix time."""
    latest = changed_at(folder)
    for place, folders, files in os.walk(folder):
        latest = max((latest, *(changed_at(Path(place, name)) for name in (*folders, *files))))
    return latest


def regular_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the name and state of each regular file below a folder; nothing if it is not there."""
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # somebody has just removed it
                status = os.lstat(os.path.join(place, name))  # noqa: PTH118  (hundreds of thousands of files)
                if stat.S_ISREG(status.st_mode):
                    yield name, status


@contextlib.contextmanager
def holding(path: Path) -> Iterator[bool]:
    """Hold the lock of a file or folder while the block runs; yield whether it was free.

    It counts as taken, too, if it is not there, or where the file system has no locks. The system lets go of a lock
    when its process ends, however that happens.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


@contextlib.contextmanager
def sharing(folder: Path) -> Iterator[None]:
    """Keep others from `holding` a folder while the block runs, after whoever holds it now; many may share it.

    Nothing is kept from anybody if it is not there, or where the file system has no locks.
    """
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield


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
