"""Where a shared store is: the operations of every place, and its address."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK = 8 << 20
"""Bytes of a piece of a large object."""


class PlaceFaultError(Exception):
    """A place cannot be reached, read or written; the message says why, without credentials.

    Attributes:
        missing: Whether an object is not there.
        alone: Whether others may be as they should be, because the fault is that of one object.
    """

    def __init__(self, fault: str, *, missing: bool = False, alone: bool = False) -> None:
        super().__init__(printable(without_userinfo(fault)))
        self.missing, self.alone = missing, alone or missing


@dataclass(frozen=True)
class Stored:
    """An object in a list.

    Attributes:
        path: Below the place.
        size: Bytes.
        changed: When it was written last, as a Unix time.
    """

    path: str
    size: int
    changed: float


@dataclass(frozen=True)
class Seen:
    """A small object as it was read.

    Attributes:
        content: Its bytes.
        tag: Names this version of it.
        changed: When it was written, as a Unix time; 0 if the place does not say.
    """

    content: bytes
    tag: str
    changed: float = 0.0


class Place(ABC):
    """The objects of a shared store by their paths. An object appears whole or not at all.

    Every operation may raise a `PlaceFaultError`.

    Args:
        name: For people: its folder or address, without credentials.
    """

    remote = True
    """Whether others than the users of this machine could have written there."""

    def __init__(self, name: str) -> None:
        self.name = without_userinfo(name)
        self.denied = False
        """Whether it has answered that something may not be read, which counts as not there: so answers a bucket that
        nobody may list for what it does not have."""

    @abstractmethod
    def read(self, path: str, most: int) -> Seen | None:
        """Return a small object; None if it is not there.

        Args:
            path: Which.
            most: Bytes that it may have.
        """

    @abstractmethod
    def stream(self, path: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object in pieces.

        Args:
            path: Which.
            size: Bytes that it has; what is longer is a fault.
        """

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Return the bytes of an object; None if it is not there."""

    @abstractmethod
    def add(self, path: str, content: bytes | Path) -> bool:
        """Write an object unless there is one, and return whether it was written."""

    @abstractmethod
    def replace(self, path: str, content: bytes, seen: Seen) -> bool:
        """Write a small object in place of the version that was seen, and return False if that is gone."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""

    @abstractmethod
    def objects(self, prefix: str = "") -> Iterator[Stored]:
        """Yield the objects below a folder, in any order."""


_DRIVE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def scheme_of(address: str) -> str:
    """Return the scheme of an address, in lower case; nothing for a path."""
    found = _DRIVE.match(address)
    return found[0][:-1].lower() if found else ""
