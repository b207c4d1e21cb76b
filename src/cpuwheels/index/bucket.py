"""Where an index is kept: a folder of this machine, or a bucket that speaks S3.

Both are reached through obstore, which writes a file whole or not at all. How a publisher is told that another is at
work differs: a file lock, which the system releases when a process ends; in a bucket an object that is only made if it
is not there, and that counts for a time.
"""

from __future__ import annotations

import json
import mimetypes
import os
import socket
import time
import uuid
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from filelock import FileLock, Timeout
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore, S3Store

from cpuwheels.errors import PublishError
from cpuwheels.index.layout import FILES
from cpuwheels.storage import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

LOCK = ".publishing.lock"
LEASE_SECONDS = 900.0
"""How long a publisher's claim on a bucket counts without being renewed. A wheel is uploaded in a part of it."""

WAIT_SECONDS = 600.0
_LOOK_SECONDS = 1.0
_TYPES = {".whl": "application/zip", ".metadata": "text/plain; charset=utf-8", ".html": "text/html; charset=utf-8"}
_PAGE_AGE, _FILE_AGE = "max-age=60", "max-age=31536000, immutable"


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
        """Write a file, in place of one that is there.

        Raises:
            PublishError: It cannot be written.
        """
        try:
            self._store.put(path, content, attributes=self._attributes(path))
        except (BaseError, OSError) as error:
            raise self._broken("write", path, error) from error

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write a file unless one is there, and return whether there was none.

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
        return sorted(name for name in found if name != LOCK)

    @abstractmethod
    def alone(self, wait: float = WAIT_SECONDS) -> AbstractContextManager[None]:
        """Hold the index for this publisher; a context.

        Args:
            wait: Seconds to wait for another one.

        Raises:
            PublishError: Another one is still at work then.
        """

    def _attributes(self, path: str) -> dict[str, str] | None:
        """Return what web servers are told of a file; nothing where that cannot be kept with it."""
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


class S3Bucket(Bucket):
    """An index in a bucket that speaks S3; credentials and endpoint are found as AWS's own tools find them.

    Args:
        address: ``s3://bucket/prefix``.
        environ: For ``AWS_ENDPOINT_URL``; everything else obstore reads itself.

    Raises:
        PublishError: The address names no bucket.
    """

    def __init__(self, address: str, environ: Mapping[str, str] = os.environ) -> None:
        parts = urlsplit(address)
        if not parts.netloc:
            raise PublishError(f"{address} names no bucket", where="--index", next_step="give s3://bucket/prefix")
        endpoint = environ.get("AWS_ENDPOINT_URL", "")
        store = S3Store(
            parts.netloc, prefix=parts.path.strip("/") or None, endpoint=endpoint or None,
            client_options={"allow_http": endpoint.startswith("http://")},
        )  # fmt: skip
        super().__init__(address, store)
        self._owner = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}"
        self._claimed: tuple[float, str] | None = None  # until when, and the claim's e-tag

    @contextmanager
    def alone(self, wait: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold the index for this publisher by an object that others see; it counts for `LEASE_SECONDS`."""
        end = time.time() + wait
        while not self._claim():
            if time.time() >= end:
                raise self._busy()
            time.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            self._claimed = None
            self.remove(LOCK)

    def write(self, path: str, content: bytes) -> None:
        """Write a file, in place of one that is there."""
        self._renew()
        super().write(path, content)

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write a file unless one is there, and return whether there was none."""
        self._renew()
        return super().add(path, content)

    def _claim(self) -> bool:
        """Return whether the index is held now: nobody held it, or somebody's claim has run out."""
        until = time.time() + LEASE_SECONDS
        claim = json.dumps({"owner": self._owner, "until": until}).encode()
        try:
            try:
                made = self._store.put(LOCK, claim, mode="create")
            except AlreadyExistsError:
                found = self._store.get(LOCK)
                tag = found.meta["e_tag"]
                if json.loads(bytes(found.bytes()))["until"] > time.time() or tag is None:
                    return False
                made = self._store.put(LOCK, claim, mode={"e_tag": tag})
        except (FileNotFoundError, PreconditionError):
            return False  # released or claimed just now
        except (BaseError, OSError, ValueError, KeyError) as error:
            raise self._broken("claim", LOCK, error) from error
        self._claimed = until, str(made["e_tag"])
        return True

    def _renew(self) -> None:
        """Renew the claim in good time.

        Raises:
            PublishError: Another publisher has taken over.
        """
        if self._claimed is None or self._claimed[0] - time.time() > LEASE_SECONDS / 2:
            return
        until = time.time() + LEASE_SECONDS
        claim = json.dumps({"owner": self._owner, "until": until}).encode()
        try:
            made = self._store.put(LOCK, claim, mode={"e_tag": self._claimed[1]})
        except (BaseError, OSError) as error:
            raise self._busy() from error
        self._claimed = until, str(made["e_tag"])

    def _attributes(self, path: str) -> dict[str, str] | None:
        suffix = Path(path).suffix
        kind = _TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
        age = _FILE_AGE if path.startswith(FILES) else _PAGE_AGE
        return {"Content-Type": kind, "Cache-Control": age}


def open_bucket(place: str) -> Bucket:
    """Return the bucket at a place: ``s3://bucket/prefix``, or a folder.

    Raises:
        PublishError: It is neither.
        StoreError: The folder cannot be made.
    """
    scheme = urlsplit(place).scheme
    if scheme == "s3":
        return S3Bucket(place)
    if scheme in {"", "file"}:
        return Folder(Path(urlsplit(place).path if scheme else place))
    raise PublishError(
        f"an index cannot be kept at {place}", where="--index", next_step="give a folder or s3://bucket/prefix"
    )
