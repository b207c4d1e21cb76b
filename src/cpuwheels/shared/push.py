"""Sharing sealed entries of the stores: by a process that runs nothing of vLLM, after the builds that made them.

What is shared of an entry is what its manifest has, which this program wrote when it took the build's results over.
The object is written first, then the description, so a torn upload is an object that nothing describes. Of two writers
of one key the first one's entry stays.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.digests import entry_digest, tree_contents
from cpuwheels.core.errors import ProvenanceError, SharedStoreError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.sealed_entry import MANIFEST, check_entry, used_at
from cpuwheels.core.text import first_names
from cpuwheels.shared.archive import LEVEL, RefusedTreeError, tree_id, tree_names
from cpuwheels.shared.description import LARGEST_DESCRIPTION, description_path, read_description, render
from cpuwheels.shared.growing import put_together
from cpuwheels.shared.kinds import GROWING, MEASURED, SEALED
from cpuwheels.shared.objects import fetch_tree, is_whole, packed, put_object
from cpuwheels.shared.place import PlaceFaultError
from cpuwheels.shared.wanted import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from securesystemslib.signer import Key, Signer

    from cpuwheels.core.store import Store
    from cpuwheels.shared.description import Signed
    from cpuwheels.shared.objects import Packed
    from cpuwheels.shared.place import Place, Seen
    from cpuwheels.shared.wanted import State, Wanted

TOUCH_SECONDS = 24 * 3600.0
"""How long after a description was written its entry has to be in use here, so that it is written again."""

_ATTEMPTS = 50
_PAUSE_SECONDS = 0.2
"""On average, after somebody else was faster."""

_SHOWN = 5


class RefusedError(Exception):
    """Nobody who is trusted wrote what is there; the message says more."""


class Sharer:
    """Writes entries into a shared store.

    Args:
        store: The local stores.
        place: The shared one.
        signer: Signs descriptions; None for a store whose readers ask for no signature.
        keys: Public keys of those who may have written what is there, this signer's too; None if there is no signer.
        thorough: Whether the objects that are there are read and compared.
        level: Of compression, 0 to 9 (zlib).
    """

    def __init__(
        self,
        store: Store,
        place: Place,
        signer: Signer | None,
        keys: Sequence[Key] | None,
        *,
        thorough: bool = False,
        level: int = LEVEL,
    ) -> None:
        self._store, self._place = store, place
        self._signer, self._keys, self._thorough, self._level = signer, keys, thorough, level

    def share(self, wanted: Wanted) -> Outcome:
        """Share one entry.

        Raises:
            SharedStoreError: The place cannot be reached or written.
            ProvenanceError: The key does not sign.
            StoreError: The local stores cannot be read.
        """
        try:
            with storage_errors(self._store.root):
                return self._grow(wanted) if wanted.kind in GROWING else self._add(wanted)
        except PlaceFaultError as fault:
            raise SharedStoreError(
                f"{wanted} cannot be shared: {fault}",
                where=self._place.name,
                next_step="check the address, the rights and the space there, and run it again: it goes on",
            ) from fault
        except (RefusedTreeError, RefusedError) as error:
            return Outcome(wanted, "refused", why=str(error))

    def _add(self, wanted: Wanted) -> Outcome:
        store = self._store.trusting(wanted.trust)
        entry = store.path(wanted.kind, wanted.key)
        used = used_at(entry)
        with store.lock(wanted.kind, wanted.key):
            if faults := check_entry(entry):
                return Outcome(wanted, "damaged", why=f"{faults[0]}; the next build makes it again")
            seen = self._seen(wanted)
            there = self._read(wanted, seen)
            if there and is_whole(self._place, there.described, thorough=self._thorough):
                return self._compared(wanted, there, entry, seen, used)
            tree = tree_id(entry, SEALED[wanted.kind])
            with packed(wanted.kind, wanted.key, wanted.trust, entry, tree_names(entry), tree, self._level) as made:
                state: State = "healed" if there else "shared"
                if self._written(wanted, made, seen, known_bad=bool(there)):
                    return Outcome(wanted, state, made.described.size)
                there = self._read(wanted, self._seen(wanted))
                if there is None or there.described.sha256 != made.described.sha256:
                    self._place.remove(made.described.object)
            return self._compared(wanted, there, entry, None, used) if there else Outcome(wanted, "there")

    def _compared(self, wanted: Wanted, there: Signed, entry: Path, seen: Seen | None, used: float) -> Outcome:
        """Return whether what somebody shared is what is here, and keep it from being taken for unused."""
        if there.described.tree != tree_id(entry, SEALED[wanted.kind]):
            return Outcome(wanted, "differs", why=self._difference(there, entry, SEALED[wanted.kind]))
        if seen and used - seen.changed > TOUCH_SECONDS:
            path = description_path(wanted.kind, wanted.key, wanted.trust)
            self._place.replace(path, seen.content, seen)  # if somebody else was faster, that is as good
        return Outcome(wanted, "there")

    def _difference(self, there: Signed, entry: Path, measured: frozenset[str]) -> str:
        """Return who shared other bytes, and in which files they differ."""
        by = f"; shared by {there.signer}" if there.signer else ""
        with tempfile.TemporaryDirectory(prefix="cpuwheels-share-") as name:
            other = Path(name, "other")
            other.mkdir()
            try:
                fetch_tree(self._place, there.described, other, measured, Path(name))
            except RefusedTreeError as error:
                return f"{error}{by}"
            ours, theirs = (_digests(folder, measured) for folder in (entry, other))
            names = sorted(one for one in ours.keys() | theirs.keys() if ours.get(one) != theirs.get(one))
        return f"{first_names(names, _SHOWN) or 'empty folders'}{by}"

    def _grow(self, wanted: Wanted) -> Outcome:
        store = self._store.trusting(wanted.trust)
        ours = store.folder(MEASURED) if wanted.kind == MEASURED else store.path(wanted.kind, wanted.key)
        for _ in range(_ATTEMPTS):
            seen = self._seen(wanted)
            there = self._read(wanted, seen)
            with tempfile.TemporaryDirectory(prefix="cpuwheels-share-") as name:
                theirs, both = Path(name, "theirs"), Path(name, "both")
                theirs.mkdir()
                both.mkdir()
                try:
                    if there and is_whole(self._place, there.described):
                        fetch_tree(self._place, there.described, theirs, (), Path(name))
                except PlaceFaultError as fault:
                    if not fault.missing:
                        raise
                    continue  # somebody else has just written another one
                if not put_together(wanted.kind, ours, theirs, both):
                    return Outcome(wanted, "there")
                tree = tree_id(both, ())
                with packed(wanted.kind, wanted.key, wanted.trust, both, tree_names(both), tree, self._level) as made:
                    if self._written(wanted, made, seen):
                        if there and there.described.sha256 != made.described.sha256:
                            self._place.remove(there.described.object)
                        return Outcome(wanted, "grown", made.described.size)
                    self._place.remove(made.described.object)
            time.sleep(random.uniform(0, 2 * _PAUSE_SECONDS))  # noqa: S311  (no secret)
        raise PlaceFaultError("others write it all the time")

    def _written(self, wanted: Wanted, made: Packed, seen: Seen | None, *, known_bad: bool = False) -> bool:
        """Write an object, then its description, and return False if somebody else was faster."""
        put_object(self._place, made, known_bad=known_bad)
        content = render(made.described, self._signer)
        path = description_path(wanted.kind, wanted.key, wanted.trust)
        return self._place.add(path, content) if seen is None else self._place.replace(path, content, seen)

    def _seen(self, wanted: Wanted) -> Seen | None:
        return self._place.read(description_path(wanted.kind, wanted.key, wanted.trust), LARGEST_DESCRIPTION)

    def _read(self, wanted: Wanted, seen: Seen | None) -> Signed | None:
        """Return the description that is there.

        Raises:
            RefusedError: Nobody who is trusted wrote it.
        """
        if seen is None:
            return None
        try:
            return read_description(seen.content, wanted.kind, wanted.key, wanted.trust, self._keys)
        except ProvenanceError as error:
            raise RefusedError(error.what) from error


def _digests(folder: Path, measured: frozenset[str]) -> dict[str, str]:
    names = (name for name in tree_contents(folder).files if name not in measured and name != MANIFEST)
    return {name: entry_digest(folder / name) for name in names}
