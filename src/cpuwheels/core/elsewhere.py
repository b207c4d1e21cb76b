"""Entries of the stores that other machines made: how the stores ask for them, and whom this run asks.

The stores look at what is here first. What somebody else has is asked for only while a block of `taken_from` runs.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cpuwheels.core.trust import NAMESPACED, Trust

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STORE_VARIABLE, KEY_VARIABLE = "CPUWHEELS_STORE", "CPUWHEELS_STORE_KEY"
"""Variables for the options ``--store`` and ``--store-key``."""

_ACTIVE: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)


@dataclass(frozen=True)
class Origin:
    """Where an entry came from that was not made here.

    Attributes:
        place: The shared store, without credentials.
        sha256: Of the object that was fetched.
        signer: Id of the key that signed its description; empty if nobody had to sign it.
    """

    place: str
    sha256: str
    signer: str = ""


class Elsewhere(Protocol):
    """Somebody who may have entries; what is wrong or out of reach there is reported, and counts as not there."""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of entries that there may be."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options with which another process of this program asks the same place."""

    def fill(self, kind: str, key: str, trust: Trust, folder: Path) -> Origin | None:
        """Fill an empty folder with the content of an entry, or leave it empty and return None.

        Args:
            kind: Of the entry.
            key: Its key.
            trust: Who vouches for the source that it was made from.
            folder: Nobody else sees it yet.

        Raises:
            OSError: The folder cannot be written.
        """

    def replenish(self, kind: str, key: str, trust: Trust, folder: Path) -> None:
        """Add to a folder of small files, such as the lists of what compilers read, what others have and it has not.

        Args:
            kind: Of the folder.
            key: Its name.
            trust: Who vouches for what is in it.
            folder: Made if something comes.

        Raises:
            OSError: The folder cannot be written.
        """


@contextmanager
def taken_from(other: Elsewhere | None) -> Iterator[None]:
    """Let the stores of this thread, and of those that get its context, ask somebody while the block runs."""
    token = _ACTIVE.set(other)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def elsewhere() -> Elsewhere | None:
    """Return whom the stores of this thread ask, if anybody."""
    return _ACTIVE.get()


def vouched(kind: str, trust: Trust) -> tuple[Trust, ...]:
    """Return whose entries are taken from elsewhere: those of releases, and for a commit those of commits first.

    What was made from a tree of a machine stays there: nobody else can tell what the tree was.

    Args:
        kind: Of the entries.
        trust: Who vouches for the source that they are wanted for.
    """
    own = kind in NAMESPACED and trust is Trust.COMMIT
    return (Trust.COMMIT, Trust.RELEASE) if own else (Trust.RELEASE,)
