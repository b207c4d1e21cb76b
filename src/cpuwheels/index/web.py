"""A published index as everybody reads it, for a process that builds and has no credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obstore.exceptions import BaseError
from obstore.store import HTTPStore

from cpuwheels.core.errors import PublishError
from cpuwheels.core.urls import without_userinfo
from cpuwheels.index.bucket import WAIT_SECONDS, Bucket

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

LARGEST = 2 << 30
"""Bytes of a file that is read: a wheel."""


class Web(Bucket):
    """An index at an ``https://`` or ``http://`` address; nothing can be changed in it.

    Args:
        address: Of its root.
    """

    def __init__(self, address: str) -> None:
        super().__init__(without_userinfo(address))
        options = {"allow_http": True, "timeout": "600s", "connect_timeout": "30s"}
        self._store = HTTPStore.from_url(address.rstrip("/"), client_options=options)  # type: ignore[arg-type]

    def read(self, path: str) -> bytes | None:
        """Return a file's content; None if it is not there."""
        try:
            found = self._store.get(path)
            if found.meta["size"] > LARGEST:
                raise self._broken("read", path, ValueError(f"it has {found.meta['size']:,} bytes"))
            return bytes(found.bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._broken("read", path, error) from error

    def write(self, path: str, content: bytes) -> None:
        """Refuse it."""
        raise self._read_only(path, content)

    def add(self, path: str, content: bytes | Path) -> bool:
        """Refuse it."""
        raise self._read_only(path, content)

    def remove(self, path: str) -> None:
        """Refuse it."""
        raise self._read_only(path)

    def names(self, prefix: str = "") -> list[str]:
        """Refuse it: a web server lists nothing."""
        raise self._read_only(prefix)

    def alone(self, wait: float = WAIT_SECONDS) -> AbstractContextManager[None]:
        """Refuse it."""
        raise self._read_only(wait)

    def _read_only(self, *_: object) -> PublishError:
        return PublishError(
            "an index is only read at its web address",
            where=self.name,
            next_step="give the folder or s3://bucket/prefix where it is kept",
        )
