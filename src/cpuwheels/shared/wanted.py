"""Entries of the local stores that may be shared, and what became of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.digests import KEY_LENGTH
from cpuwheels.core.trust import NAMESPACED, Trust
from cpuwheels.shared.kinds import MEASURED, READS, SEALED, TABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from cpuwheels.core.store import Store

_KEY = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")

_ALL: Mapping[str, Collection[str]] = MappingProxyType({})

State = Literal["shared", "there", "healed", "grown", "differs", "refused", "damaged"]


@dataclass(frozen=True)
class Wanted:
    """An entry of the local stores that is to be shared."""

    kind: str
    key: str
    trust: Trust

    def __str__(self) -> str:
        """Return it as messages name it."""
        return "/".join(filter(None, (self.trust.value, self.kind, self.key)))


@dataclass(frozen=True)
class Outcome:
    """What became of an entry.

    Attributes:
        wanted: Which.
        state: ``shared`` now; ``there`` before; ``healed``: what was there was not whole; ``grown``: something was
            added; ``differs``: somebody else shared other bytes, which stay; ``refused``: nobody who is trusted wrote
            what is there, or it cannot be packed; ``damaged``: the entry here is not whole.
        size: Bytes that were written.
        why: More about it, for people.
    """

    wanted: Wanted
    state: State
    size: int = 0
    why: str = ""


def shareable(store: Store, chosen: Mapping[str, Collection[str]] = _ALL) -> Iterator[Wanted]:
    """Yield what the local stores have that may be shared: nothing that was made from a tree of this machine.

    Args:
        store: The stores.
        chosen: Keys of the entries that are wanted, by kind; of a kind that is not in it all are.
    """
    for trust in (Trust.RELEASE, Trust.COMMIT):
        own = store.trusting(trust)
        for kind in (*SEALED, READS):
            if trust is not Trust.RELEASE and kind not in NAMESPACED:
                continue
            for folder in sorted(own.folder(kind).glob("[0-9a-f]*")):
                if folder.is_dir() and _KEY.fullmatch(folder.name) and folder.name in chosen.get(kind, {folder.name}):
                    yield Wanted(kind, folder.name, trust)
        if any(own.folder(MEASURED).glob("*.*")):
            yield Wanted(MEASURED, TABLES, trust)
