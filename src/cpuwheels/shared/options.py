"""Which shared store a run asks, as its user names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError
from cpuwheels.shared.address import open_place
from cpuwheels.shared.pull import SharedStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class StoreChoice:
    """A shared store to take from.

    Attributes:
        address: A folder, ``s3://bucket/prefix`` or ``https://…``.
        keys: Files of public keys, one of which has to have signed what is taken.
        unsigned: Whether nobody has to.
    """

    address: str
    keys: tuple[Path, ...] = ()
    unsigned: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options that name it for another process of this program."""
        keys = [part for key in self.keys for part in ("--store-key", str(key.absolute()))]
        return ("--store", self.address, *keys, *(["--unsigned-store"] if self.unsigned else []))


def open_shared(
    choice: StoreChoice, announce: Callable[[str], None], *, locked: bool, tell: Callable[[str], None] = lambda _: None
) -> SharedStore:
    """Return the shared store that a user names; nothing is asked yet.

    Args:
        choice: What the user gave.
        announce: Told of everything that is not as it should be.
        locked: Whether the run is locked, so that signatures are needed wherever the store is.
        tell: Told of what comes.

    Raises:
        UsageError: Its address is none, or nothing says whose signatures count.
        ProvenanceError: A key cannot be read.
    """
    place = open_place(choice.address, writes=False)
    if choice.keys and choice.unsigned:
        raise UsageError(
            "either keys have to have signed what is taken, or nobody",
            where="--unsigned-store",
            next_step="leave it out, or --store-key",
        )
    if locked and not choice.keys:
        raise UsageError(
            "a locked run takes from a shared store only what a trusted key signed",
            where="--store",
            next_step="name the public key with --store-key, or build without --locked",
        )
    if place.remote and not choice.keys and not choice.unsigned:
        raise UsageError(
            f"nothing says whose signatures count of what is at {place.name}",
            where="--store",
            next_step="name the public key of who shares there with --store-key; --unsigned-store trusts all who can "
            "write there",
        )
    keys = None
    if choice.keys:
        from cpuwheels.attestation.keys import public_key  # noqa: PLC0415  (with what verifies)

        keys = [public_key(path) for path in choice.keys]
    return SharedStore(place, keys, announce, arguments=choice.arguments, tell=tell)
