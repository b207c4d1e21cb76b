"""Where an index is kept: the operations of every place, and a folder on this machine.

All are reached through obstore, which writes a file whole or not at all. How a publisher learns that another is at work
differs: here by a file lock, which the system releases when a process ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore

from cpuwheels.core.errors import DiskFullError, PublishError
from cpuwheels.core.filesystem import free_bytes, storage_errors
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from obstore.store import S3Store

HIDDEN = ".publishing"
"""Names that begin so are the publishers' own, and no files of the index."""

LOCK = f"{HIDDEN}.lock"
WAIT_SECONDS = 600.0

_PAGES_SIZE = 16 << 20
"""More bytes than the pages of one publication take."""


class Bucket(ABC):
    """The files of an index by their paths.

    Args:
        name: For people: its folder or address.
    """

    def __init__(self, name: str, store: LocalStore | S3Store) -> None:
        self.name = name
        self._store = store

    def read(self, path: str) -> bytes | None:
        """Return a file's content; None if it is not there.

        Raises:
            PublishError: It cannot be read.
        """
        try:
            return bytes(self._store.get(path).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._broken("read", path, error) from error

    def write(self, path: str, content: bytes) -> None:
        """Write a file, replacing an existing one.

        Raises:
            PublishError: It cannot be written.
        """
        try:
            self._store.put(path, content, attributes=self._attributes(path))
        except (BaseError, OSError) as error:
            raise self._broken("write", path, error) from error

    def write_pages(self, pages: Mapping[str, str]) -> None:
        """Write texts by their paths, one after the other.

        Raises:
            PublishError: One cannot be written.
        """
        for path, text in pages.items():
            self.write(path, text.encode())

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write a file unless it exists, and return whether it was written.

        Raises:
            PublishError: It cannot be written.
        """
        try:
            self._store.put(path, content, mode="create", use_multipart=False, attributes=self._attributes(path))
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise self._broken("write", path, error) from error
        return True

    def remove(self, path: str) -> None:
        """Remove a file, if it is there.

        Raises:
            PublishError: It cannot be removed.
        """
        try:
            self._store.delete(path)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise self._broken("remove", path, error) from error

    def names(self, prefix: str = "") -> list[str]:
        """Return the paths of all files below a folder, sorted.

        Raises:
            PublishError: They cannot be listed.
        """
        try:
            found = [entry["path"] for page in self._store.list(prefix or None) for entry in page]
        except (BaseError, OSError) as error:
            raise self._broken("list", prefix, error) from error
        return sorted(name for name in found if not name.startswith(HIDDEN))

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

    def _attributes(self, path: str) -> dict[str, str] | None:
        """Return a file's headers for web servers; none where they cannot be stored with it."""
        del path
        return None

    def _broken(self, what: str, path: str, error: Exception) -> PublishError:
        said = str(error).partition("\n")[0]
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
            self._folder.mkdir(parents=True, exist_ok=True)
        super().__init__(str(self._folder), LocalStore(self._folder))

    @contextmanager
    def alone(self, wait: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold the index for this publisher; released by the system when the process ends."""
        try:
            with FileLock(self._folder / LOCK, timeout=wait):
                yield
        except Timeout as error:
            raise self._busy() from error

    def require_room(self, size: int) -> None:
        """Check that there is room for files, and for the pages that will refer to them."""
        free = free_bytes(self._folder)
        if free < size + _PAGES_SIZE:
            raise DiskFullError(
                f"{format_size(free)} are free, {format_size(size + _PAGES_SIZE)} are needed",
                where=self.name,
                next_step="free space there; nothing of the index was changed",
            )
