"""A shared store in a folder, such as one on a network file system.

A file has its content before it has its name, and both before the next file is written, also after a power cut.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.core.filesystem import make_folders, replacing, sync_folder
from cpuwheels.core.plain_file import NotPlainError, open_plain, read_plain
from cpuwheels.shared.place import CHUNK, Place, PlaceFaultError, Seen, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = ".lock"
_UNFINISHED = ".unfinished-"
_WAIT_SECONDS = 60.0


class Folder(Place):
    """A folder.

    Args:
        path: Made when first written to.
    """

    remote = False

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path

    def read(self, path: str, most: int) -> Seen | None:
        """Return a small object; None if it is not there."""
        with _faults(path):
            try:
                content = read_plain(self._path / path, most)
                changed = (self._path / path).stat().st_mtime
            except (FileNotFoundError, NotADirectoryError):
                return None
        return Seen(content, hashlib.sha256(content).hexdigest(), changed)

    def stream(self, path: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object in pieces."""
        with _faults(path), os.fdopen(open_plain(self._path / path), "rb") as file:
            while chunk := file.read(CHUNK):
                size -= len(chunk)
                if size < 0:
                    raise PlaceFaultError(f"{path} is longer than it should be", alone=True)
                yield chunk

    def size(self, path: str) -> int | None:
        """Return the bytes of an object; None if it is not there."""
        with _faults(path):
            try:
                return (self._path / path).lstat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write an object unless there is one, and return whether it was written."""
        place = self._path / path
        with _faults(path):
            if os.path.lexists(place):
                return False
            make_folders(place.parent)
            handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=place.parent)
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
                try:
                    os.link(name, place)
                except FileExistsError:
                    return False
            finally:
                os.unlink(name)  # noqa: PTH108  (mkstemp's)
            sync_folder(place.parent)
        return True

    def replace(self, path: str, content: bytes, seen: Seen) -> bool:
        """Write a small object in place of the version that was seen, and return False if that is gone."""
        with _faults(path), self._alone():
            now = self.read(path, len(seen.content))
            if now is None or now.tag != seen.tag:
                return False
            with replacing(self._path / path) as stream:
                stream.write(content)
        return True

    def remove(self, path: str) -> None:
        """Remove an object, if it is there, and its folder if nothing else is in it."""
        place = self._path / path
        with _faults(path):
            place.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                place.parent.rmdir()

    def objects(self, prefix: str = "") -> Iterator[Stored]:
        """Yield the objects below a folder, in any order; what a killed writer left, too."""
        with _faults(prefix):
            for folder, _, names in os.walk(self._path / prefix):
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        status = os.lstat(f"{folder}/{name}")
                        path = os.path.relpath(f"{folder}/{name}", self._path)
                        if path != LOCK:
                            yield Stored(path, status.st_size, status.st_mtime)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = FileLock(self._path / LOCK, timeout=_WAIT_SECONDS)
        try:
            with lock:
                yield
        except Timeout as error:
            raise PlaceFaultError("somebody else writes to it for too long") from error


@contextlib.contextmanager
def _faults(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise PlaceFaultError(f"{path}: {error.strerror}", missing=True) from error
    except NotPlainError as error:
        raise PlaceFaultError(f"{path}: {error.strerror}", alone=True) from error
    except OSError as error:
        raise PlaceFaultError(f"{path}: {error.strerror or error}") from error
    except CpuwheelsError as error:
        raise PlaceFaultError(f"{path}: {error.what}") from error
