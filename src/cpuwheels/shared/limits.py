"""What a shared store may keep: entries that nobody used for long are removed, and what cut-off uploads left.

Readers leave no trace in a bucket, so an entry counts as used when a machine that shares used it last: `share` writes
its description again then (`cpuwheels.shared.push`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.errors import ProvenanceError, SharedStoreError
from cpuwheels.core.trust import Trust
from cpuwheels.shared.archive import SUFFIX
from cpuwheels.shared.description import FORMAT, LARGEST_DESCRIPTION, NAME, folder_of, read_description
from cpuwheels.shared.kinds import SEALED
from cpuwheels.shared.place import PlaceFaultError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.shared.place import Place, Stored

DAYS = 30.0
"""How long an entry stays that nobody uses, unless the user says otherwise."""

LEFTOVER_SECONDS = 24 * 3600.0
"""Age from which an object that nothing describes is no upload under way."""

_DAY = 24 * 3600.0


@dataclass(frozen=True)
class SharedEntry:
    """An entry of a shared store.

    Attributes:
        kind: Its kind.
        key: Its key.
        trust: Who vouches for it.
        description: Its description; None if an upload was cut off.
        objects: What else is in its folder.
    """

    kind: str
    key: str
    trust: Trust
    description: Stored | None
    objects: tuple[Stored, ...]

    @property
    def name(self) -> str:
        """What messages call it."""
        return folder_of(self.kind, self.key, self.trust).partition("/")[2]

    @property
    def used(self) -> float:
        """When it was used last, as a Unix time."""
        return max(one.changed for one in self.everything)

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return sum(one.size for one in self.everything)

    @property
    def everything(self) -> tuple[Stored, ...]:
        """All objects; the description first, since without it nobody asks for the others."""
        return (*([self.description] if self.description else []), *self.objects)


@dataclass(frozen=True)
class Pruned:
    """What was removed.

    Attributes:
        entries: How many sealed entries there were.
        size: Bytes of all that was there.
        removed: Names of the entries that are removed, the longest unused first.
        leftovers: Paths of objects that nothing describes.
        freed: Bytes of both.
    """

    entries: int
    size: int
    removed: tuple[str, ...]
    leftovers: tuple[str, ...]
    freed: int


def prune(place: Place, *, days: float = DAYS, down_to: int | None = None, dry_run: bool = False) -> Pruned:
    """Remove entries that nobody used for some days, then, the longest unused first, until a size is reached.

    Lists of what compilers read and tables of costs stay: they are small, and without them kernels are not found.

    Args:
        place: The shared store.
        days: How long an entry stays that nobody uses.
        down_to: Bytes that may stay; None for any number.
        dry_run: Whether nothing is removed.

    Raises:
        SharedStoreError: The place cannot be read or written.
    """
    try:
        found = list(entries_of(place.objects(FORMAT)))
        now = time.time()
        leftovers = [one for entry in found for one in _leftovers(place, entry, now - LEFTOVER_SECONDS)]
        sealed = [entry for entry in found if entry.kind in SEALED and entry.description]
        total = sum(entry.size for entry in found)
        lost = {one.path: one.size for one in leftovers}
        gone = chosen(sealed, total - sum(lost.values()), oldest=now - days * _DAY, down_to=down_to)
        for entry in gone:
            lost |= {one.path: one.size for one in entry.everything}
        if not dry_run:
            for path in (*(one.path for entry in gone for one in entry.everything), *(one.path for one in leftovers)):
                place.remove(path)
    except PlaceFaultError as fault:
        raise SharedStoreError(
            f"the shared store cannot be pruned: {fault}",
            where=place.name,
            next_step="check the address and the rights there, and run it again: it goes on",
        ) from fault
    return Pruned(
        len(sealed),
        total,
        tuple(entry.name for entry in gone),
        tuple(sorted(one.path for one in leftovers)),
        sum(lost.values()),
    )


def entries_of(objects: Iterable[Stored]) -> Iterator[SharedEntry]:
    """Yield the entries that objects belong to; what is none of this program's is left alone."""
    folders: defaultdict[tuple[Trust, str, str], list[Stored]] = defaultdict(list)
    for one in objects:
        parts = one.path.split("/")
        trust = Trust.COMMIT if parts[1:2] == [Trust.COMMIT.value] else Trust.RELEASE
        named = parts[2:] if trust is Trust.COMMIT else parts[1:]
        if len(named) == 3:  # noqa: PLR2004  (kind, key, object)
            folders[trust, named[0], named[1]].append(one)
    for (trust, kind, key), there in folders.items():
        said = next((one for one in there if one.path.endswith(f"/{NAME}")), None)
        yield SharedEntry(kind, key, trust, said, tuple(one for one in there if one is not said))


def chosen(entries: Iterable[SharedEntry], size: int, *, oldest: float, down_to: int | None) -> list[SharedEntry]:
    """Return the entries to be removed, the longest unused first.

    Args:
        entries: All that may be removed.
        size: Bytes of everything that is there.
        oldest: What was used before is removed, as a Unix time.
        down_to: Bytes that may stay; None for any number.
    """
    found = []
    for entry in sorted(entries, key=lambda entry: (entry.used, entry.name)):
        if entry.used >= oldest and (down_to is None or size <= down_to):
            break
        size -= entry.size
        found.append(entry)
    return found


def _leftovers(place: Place, entry: SharedEntry, before: float) -> list[Stored]:
    """Return the objects of an entry that nothing describes any more, or not yet for so long that nothing will."""
    old = [one for one in entry.objects if one.changed < before]
    if not old:
        return []
    named = _named(place, entry)
    return [one for one in old if one.path != named]


def _named(place: Place, entry: SharedEntry) -> str | None:
    """Return the path of the object that an entry's description names, whoever wrote it; None if there is none."""
    if entry.description is None:
        return None
    if len(entry.objects) == 1 and entry.objects[0].path.endswith(SUFFIX):
        return entry.objects[0].path  # without another one there is nothing to choose from
    seen = place.read(entry.description.path, LARGEST_DESCRIPTION)
    try:
        return (
            read_description(seen.content, entry.kind, entry.key, entry.trust, None).described.object if seen else None
        )
    except ProvenanceError:
        return None
