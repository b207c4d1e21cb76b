"""A shared store behind a web server, which is only read."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from cpuwheels.core.limits import FILE
from cpuwheels.fetch.http_stream import HttpFaultError, TooLargeError, http_answer
from cpuwheels.shared.place import Place, PlaceFaultError, Seen, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.core.limits import Patience

_SMALL = replace(FILE, answer=15, window=15, whole=60)
_LARGE = replace(FILE, answer=15, rate=64 << 10, window=30, whole=3600)
"""Compiling takes minutes: who is slower than that need not be waited for."""

_OK, _DENIED = 200, 403
_MISSING = frozenset({_DENIED, 404, 410})


class Web(Place):
    """A web server with the objects of a shared store.

    Args:
        address: ``https://…`` of the store's root.
        small: How long an answer to a question is waited for.
        large: How long an object is waited for.
    """

    def __init__(self, address: str, *, small: Patience = _SMALL, large: Patience = _LARGE) -> None:
        super().__init__(address)
        self._address = address.rstrip("/")
        self._small, self._large = small, large

    def read(self, path: str, most: int) -> Seen | None:
        """Return a small object; None if it is not there."""
        with contextlib.suppress(_MissingError):
            return Seen(b"".join(self._pieces(path, most, self._small)), "")
        return None

    def stream(self, path: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object in pieces."""
        return self._pieces(path, size, self._large)

    def size(self, path: str) -> int | None:
        """Refuse it: nobody who only reads asks that."""
        raise self._read_only(path)

    def add(self, path: str, content: bytes | Path) -> bool:
        """Refuse it."""
        raise self._read_only(path, content)

    def replace(self, path: str, content: bytes, seen: Seen) -> bool:
        """Refuse it."""
        raise self._read_only(path, content, seen)

    def remove(self, path: str) -> None:
        """Refuse it."""
        raise self._read_only(path)

    def objects(self, prefix: str = "") -> Iterator[Stored]:
        """Refuse it: a web server lists nothing."""
        raise self._read_only(prefix)

    def _pieces(self, path: str, most: int, patience: Patience) -> Iterator[bytes]:
        url = f"{self._address}/{quote(path)}"
        try:
            with http_answer(url, most=most, patience=patience) as (head, content):
                if head.status in _MISSING:
                    self.denied = self.denied or head.status == _DENIED
                    raise _MissingError(f"{path} is not there")
                if head.status != _OK:
                    raise PlaceFaultError(f"{url}: HTTP status {head.status}")
                yield from content
        except TooLargeError as error:
            raise PlaceFaultError(f"{url}: {error}", alone=True) from error
        except HttpFaultError as error:
            raise PlaceFaultError(f"{url}: {error}") from error

    def _read_only(self, *_: object) -> PlaceFaultError:
        return PlaceFaultError("a shared store is only read at its web address")


class _MissingError(PlaceFaultError):
    """An object is not there."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault, missing=True)
