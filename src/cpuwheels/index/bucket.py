"""Where an index is kept: the operations of every place, and a folder on this machine.

A file appears whole or not at all. In a folder it is on the disk, with its name, before the next one is written: after
a power cut no page leads to a file that is not there. How a publisher learns that another is at work differs: here by a
file lock, which the system releases when a process ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from cpuwheels.core.errors import DiskFullError, PublishError
from cpuwheels.core.filesystem import free_bytes, make_folders, remove_tree, storage_errors, sync_folder
from cpuwheels.core.plain_file import NotPlainError, open_plain
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

HIDDEN = ".publishing"
"""Names that begin so are the publishers' own, and no files of the index."""

LOCK = f"{HIDDEN}.lock"
WAIT_SECONDS = 600.0

_UNFINISHED = f"{HIDDEN}.unfinished"
"""Folder of files that are being written."""

_PAGES_SIZE = 16 << 20
"""More bytes than the pages of one publication take."""


class Bucket(ABC):
    """The files of an index by their paths.

    Args:
        name: For people: its folder or address.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """Return a file's content; None if it is not there.

        Raises:
            PublishError: It cannot be read.
        """

    @abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Write a file, replacing an existing one.

        Raises:
            PublishError: It cannot be written.
        """

    def write_pages(self, pages: Mapping[str, str]) -> None:
        """Write texts by their paths, one after the other.

        Raises:
            PublishError: One cannot be written.
        """
        for path, text in pages.items():
            self.write(path, text.encode())

    @abstractmethod
    def add(self, path: str, content: bytes | Path) -> bool:
        """Write a file unless it exists, and return whether it was written.

        Raises:
            PublishError: It cannot be written.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, if it is there.

        Raises:
            PublishError: It cannot be removed.
        """

    @abstractmethod
    def names(self, prefix: str = "") -> list[str]:
        """Return the paths of all files below a folder, sorted.

        Raises:
            PublishError: They cannot be listed.
        """

    def require_room(self, size: int) -> None:
        """Check that there is room for files, where that is known; a bucket has no limit.

        Args:
            size: Bytes.

        Raises:
            DiskFullError: There is not.
        """
        del size

    @abstractmethod
    def alone(self, wait: float = WAIT_SECONDS) -> AbstractContextManager[None]:
        """Hold the index for this publisher; a context.

        Args:
            wait: Seconds to wait for another one.

        Raises:
            PublishError: Another one is still at work then.
        """

    def _broken(self, what: str, path: str, error: Exception) -> PublishError:
        said = (error.strerror if isinstance(error, OSError) else "") or str(error).partition("\n")[0]
        return PublishError(
            f"cannot {what} {path or 'the index'}: {said}",
            where=self.name,
            next_step="check the address, the rights and the space there; nothing of the index is lost",
        )

    def _busy(self) -> PublishError:
        return PublishError(
            "another publisher is at work in this index", where=self.name, next_step="wait for it, then try again"
        )


class Folder(Bucket):
    """An index in a folder.

    Args:
        folder: Made if it is not there.

    Raises:
        StoreError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.expanduser().resolve()
        with storage_errors(self._folder, next_step="make the folder writable, or name another"):
            make_folders(self._folder)
        super().__init__(str(self._folder))

    def read(self, path: str) -> bytes | None:
        """Return a file's content; None if it is not there."""
        try:
            with os.fdopen(open_plain(self._place(path)), "rb") as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except NotPlainError as error:
            raise self._no_file(path) from error
        except OSError as error:
            raise self._broken("read", path, error) from error

    def write(self, path: str, content: bytes) -> None:
        """Write a file, replacing an existing one."""
        self._put(path, self._place(path), content)

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write a file unless it exists, and return whether it was written."""
        place = self._place(path)
        if place.exists():
            return False
        self._put(path, place, content)
        return True

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        place = self._place(path)
        try:
            place.unlink()
            sync_folder(place.parent)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._broken("remove", path, error) from error

    def names(self, prefix: str = "") -> list[str]:
        """Return the paths of all files below a folder, sorted; those of links, too."""

        def fail(error: OSError) -> None:
            raise self._broken("list", prefix, error) from error

        start = self._place(prefix) if prefix else self._folder
        if not start.is_dir():
            return []
        found = []
        for folder, folders, files in os.walk(start, onerror=fail):
            below = Path(folder).relative_to(self._folder)
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            found += [(below / name).as_posix() for name in (*files, *links)]
        return sorted(name for name in found if not name.startswith(HIDDEN))

    @contextmanager
    def alone(self, wait: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold the index for this publisher; released by the system when the process ends."""
        lock = FileLock(self._folder / LOCK)
        try:
            lock.acquire(timeout=wait)
        except Timeout as error:
            raise self._busy() from error
        except OSError as error:
            raise self._broken("lock", LOCK, error) from error
        try:
            with storage_errors(self._folder):
                remove_tree(self._folder / _UNFINISHED)  # of a publisher that was killed
            yield
        finally:
            with suppress(OSError):
                (self._folder / _UNFINISHED).rmdir()
            lock.release()

    def require_room(self, size: int) -> None:
        """Check that there is room for files, and for the pages that will refer to them."""
        free = free_bytes(self._folder)
        if free < size + _PAGES_SIZE:
            raise DiskFullError(
                f"{format_size(free)} are free, {format_size(size + _PAGES_SIZE)} are needed",
                where=self.name,
                next_step="free space there; nothing of the index was changed",
            )

    def _place(self, path: str) -> Path:
        """Return where a file is.

        Raises:
            PublishError: Its path leads out of the folder, or through a link.
        """
        parts = path.split("/")
        place = self._folder
        for part in parts:
            if part in {"", ".", ".."} or "\0" in part:
                raise self._no_file(path)
            place = place / part
            if place.is_symlink():
                raise self._no_file(path)
        return place

    def _put(self, path: str, place: Path, content: bytes | Path) -> None:
        try:
            with self._unfinished(content) as made:
                make_folders(place.parent)
                made.replace(place)
                sync_folder(place.parent)
        except OSError as error:
            raise self._broken("write", path, error) from error

    @contextmanager
    def _unfinished(self, content: bytes | Path) -> Iterator[Path]:
        """Yield a file with a content, on the disk; it is gone afterwards unless it was moved away."""
        folder = self._folder / _UNFINISHED
        folder.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
        made = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                if isinstance(content, bytes):
                    stream.write(content)
                else:
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, stream, 1 << 20)
                stream.flush()
                os.fchmod(handle, 0o644)
                os.fsync(handle)
            yield made
        finally:
            made.unlink(missing_ok=True)

    def _no_file(self, path: str) -> PublishError:
        return PublishError(
            f"{path} is a link or something else that no publisher wrote",
            where=self.name,
            next_step="remove it; what it leads to belongs to somebody else",
        )
