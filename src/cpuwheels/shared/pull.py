"""Taking entries from a shared store: what is there is believed only as far as its signature and digest go."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.elsewhere import Origin
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.core.filesystem import empty_folder
from cpuwheels.core.units import format_size
from cpuwheels.fetch.requests import Requests, current, watched
from cpuwheels.shared.archive import RefusedTreeError
from cpuwheels.shared.description import LARGEST_DESCRIPTION, description_path, read_description
from cpuwheels.shared.growing import add_missing
from cpuwheels.shared.kinds import GROWING, SEALED
from cpuwheels.shared.objects import fetch_tree
from cpuwheels.shared.place import PlaceFaultError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from securesystemslib.signer import Key

    from cpuwheels.core.trust import Trust
    from cpuwheels.shared.description import Signed
    from cpuwheels.shared.place import Place

MISS_SECONDS = 60.0
"""How long what was asked for is not asked for again: what came is here, and what did not is not there."""


class SharedStore:
    """A shared store as the local ones ask it; see `cpuwheels.core.elsewhere`.

    Nothing that goes wrong there ends a run: what cannot be had is made here. When the place cannot be reached, or
    answers too slowly, that is reported once, and it is not asked again.

    Args:
        place: Where it is.
        keys: Any of them has to have signed what is taken; None if nobody has to.
        announce: Told of everything that is not as it should be.
        arguments: The options with which another process opens the same.
        tell: Told of each entry that comes.
    """

    kinds = frozenset(GROWING | SEALED.keys())
    """What is taken."""

    def __init__(
        self,
        place: Place,
        keys: Sequence[Key] | None,
        announce: Callable[[str], None],
        *,
        arguments: tuple[str, ...] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._place, self._keys, self._announce, self._tell = place, keys, announce, tell
        self.arguments = arguments
        self._lost = self._denied = False
        self._asked: dict[str, float] = {}
        self._taken: set[str] = set()
        self._guard = threading.Lock()

    def fill(self, kind: str, key: str, trust: Trust, folder: Path) -> Origin | None:
        """Fill an empty folder with the content of an entry, or leave it empty and return None."""
        if kind not in SEALED:
            return None
        with self._asking(f"{kind} {key}"):
            if found := self._described(kind, key, trust):
                self._unpack(found, folder, SEALED[kind], folder.parent)
                size = format_size(found.described.size)
                self._tell(f"{kind} {key} ({size}) come from {self._place.name}")
                return Origin(self._place.name, found.described.sha256, found.signer)
        empty_folder(folder)
        return None

    def replenish(self, kind: str, key: str, trust: Trust, folder: Path) -> None:
        """Add to a folder of small files what others have and it has not."""
        if kind not in GROWING:
            return
        with self._asking(f"{kind} {key}"):
            try:
                self._add(kind, folder, self._described(kind, key, trust))
            except PlaceFaultError as fault:
                if not fault.missing:
                    raise
                # Somebody has written another one since its description was read.
                self._add(kind, folder, self._described(kind, key, trust, again=True))

    def _add(self, kind: str, folder: Path, found: Signed | None) -> None:
        if found is None or found.described.sha256 in self._taken:
            return
        with tempfile.TemporaryDirectory(prefix="cpuwheels-shared-") as name:
            self._unpack(found, Path(name), frozenset(), Path(name).parent)
            add_missing(kind, Path(name), folder)
        self._taken.add(found.described.sha256)

    def _described(self, kind: str, key: str, trust: Trust, *, again: bool = False) -> Signed | None:
        path = description_path(kind, key, trust)
        with self._guard:
            if self._lost or (time.monotonic() < self._asked.get(path, 0.0) and not again):
                return None
        self._note(path)
        with self._guard:  # what comes is in the local store, and not asked for again
            self._asked[path] = time.monotonic() + MISS_SECONDS
        seen = self._place.read(path, LARGEST_DESCRIPTION)
        if seen is None:
            self._tell_denied()
            return None
        return read_description(seen.content, kind, key, trust, self._keys)

    def _tell_denied(self) -> None:
        with self._guard:
            known, self._denied = self._denied, self._place.denied
        if self._denied and not known:
            self._announce(
                f"{self._place.name} refuses to be read (403): either there is nothing that this run could use, or it "
                "may not be read without credentials; what builds has none"
            )

    def _unpack(self, found: Signed, folder: Path, measured: frozenset[str], room: Path) -> None:
        self._note(found.described.object)
        fetch_tree(self._place, found.described, folder, measured, room)

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Let the place be asked, and report what is wrong there."""
        with self._unlisted():
            try:
                yield
            except PlaceFaultError as fault:
                if fault.alone:
                    self._announce(f"{self._place.name}: {what} is not whole there, and is made here: {fault}")
                    return
                with self._guard:
                    known, self._lost = self._lost, True
                if not known:
                    self._announce(f"the shared store is not used any more, what it may have is made here: {fault}")
            except (RefusedTreeError, ProvenanceError) as error:
                said = error.what if isinstance(error, ProvenanceError) else error
                self._announce(f"{self._place.name}: {what} is not taken from there, and is made here: {said}")

    @contextlib.contextmanager
    def _unlisted(self) -> Iterator[None]:
        """Let a locked run ask, too: what comes is no input that a list could have, and has its signature."""
        requests = current()
        with watched(Requests(requests.log)) if requests else contextlib.nullcontext():
            yield

    def _note(self, path: str) -> None:
        if requests := current():
            requests.note("get", f"{self._place.name}/{path}")
