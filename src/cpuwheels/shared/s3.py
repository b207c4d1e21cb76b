"""A shared store in a bucket that speaks S3."""

from __future__ import annotations

import contextlib
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, PreconditionError
from obstore.store import S3Store

from cpuwheels.core.errors import UsageError
from cpuwheels.shared.place import CHUNK, Place, PlaceFaultError, Seen, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from obstore import GetResult

_READ_SECONDS, _WRITE_SECONDS = "60s", "3600s"
"""For one request: of `CHUNK` bytes at most, or of a whole object."""

_CONNECT_SECONDS = "10s"
_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=30)}


class Bucket(Place):
    """A bucket; its endpoint is found as AWS's own tools find it.

    Args:
        address: ``s3://bucket/prefix``.
        writes: Whether it is written to, with the credentials of the environment. A process that builds has none, and
            reads without signing its requests.
        environ: For ``AWS_ENDPOINT_URL``; everything else obstore reads itself.

    Raises:
        UsageError: The address names no bucket.
    """

    def __init__(self, address: str, *, writes: bool, environ: Mapping[str, str] = os.environ) -> None:
        parts = urlsplit(address)
        if not parts.netloc or "@" in parts.netloc:
            raise UsageError("the address names no bucket", where="--store", next_step="give s3://bucket/prefix")
        super().__init__(address)
        self._writes = writes
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL", "")
        self._store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            skip_signature=not writes,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "timeout": _WRITE_SECONDS if writes else _READ_SECONDS,
                "connect_timeout": _CONNECT_SECONDS,
            },
            retry_config=_RETRIES,
            config={"endpoint": endpoint} if endpoint else {},
        )

    def read(self, path: str, most: int) -> Seen | None:
        """Return a small object; None if it is not there."""
        with _faults("read", path):
            try:
                found = self._store.get(path)
            except FileNotFoundError:
                return None
            except PermissionDeniedError:
                if self._writes:
                    raise
                self.denied = True
                return None
            if found.meta["size"] > most:
                raise PlaceFaultError(f"{path} has {found.meta['size']:,} bytes", alone=True)
            return _seen(found)

    def stream(self, path: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object in pieces, each in bounded time."""
        with _faults("read", path):
            if (there := self._store.head(path)["size"]) != size:
                raise PlaceFaultError(f"{path} has {there:,} bytes, not {size:,}", alone=True)
            for start in range(0, size, CHUNK):
                yield bytes(self._store.get_range(path, start=start, length=min(CHUNK, size - start)))

    def size(self, path: str) -> int | None:
        """Return the bytes of an object; None if it is not there."""
        with _faults("read", path):
            try:
                return int(self._store.head(path)["size"])
            except FileNotFoundError:
                return None

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write an object unless there is one, and return whether it was written."""
        with _faults("write", path):
            try:
                self._store.put(path, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def replace(self, path: str, content: bytes, seen: Seen) -> bool:
        """Write a small object in place of the version that was seen, and return False if that is gone."""
        with _faults("write", path):
            try:
                self._store.put(path, content, mode={"e_tag": seen.tag}, use_multipart=False)
            except (PreconditionError, AlreadyExistsError, FileNotFoundError):
                return False
        return True

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""
        with _faults("remove", path), contextlib.suppress(FileNotFoundError):
            self._store.delete(path)

    def objects(self, prefix: str = "") -> Iterator[Stored]:
        """Yield the objects below a folder, in any order."""
        with _faults("list", prefix):
            for page in self._store.list(prefix or None):
                for one in page:
                    yield Stored(one["path"], one["size"], one["last_modified"].timestamp())


def _seen(found: GetResult) -> Seen:
    tag = found.meta["e_tag"]
    return Seen(bytes(found.bytes()), tag or "", found.meta["last_modified"].timestamp())


@contextlib.contextmanager
def _faults(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError) as error:
        said = str(error).partition("\n")[0]
        raise PlaceFaultError(
            f"cannot {what} {path or 'it'}: {said}", missing=isinstance(error, FileNotFoundError)
        ) from error
