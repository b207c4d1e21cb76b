"""A cache in direct mode: results are found by the files that were read when earlier ones were made.

What a program reads is known only after it has run. So the list of what it read is kept, under a key of everything
else that its result depends on. Before it runs again, each list of an earlier run is combined with the present
content of the files on it. The first that leads to a result in the store is right, because the program would read the
same files again. This is how ccache's direct mode works (ccache manual, "How ccache works").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from cpuwheels.core.digests import entry_digest, text_digest
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.parse import LONGEST
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cpuwheels.core.store import Store

ABSENT = "absent"
"""Used in place of a digest for what a tree does not have."""

Reads = TypeVar("Reads", bound=BaseModel)


class DirectModeCache(Generic[Reads]):
    """The lists of what was read, for one key of everything else.

    Args:
        store: Where they are kept.
        kind: Their kind in the store.
        beside: Key of everything that the results depend on apart from the files read.
        model: What such a list is written and read as.
    """

    def __init__(self, store: Store, kind: str, beside: str, model: type[Reads]) -> None:
        self._store, self._kind, self._beside = store, kind, beside
        self._root = store.root
        self._folder = store.path(kind, beside)
        self._folders = [folder / beside for folder in store.folders(kind)]
        self._model = model

    def known(self) -> Iterator[Reads]:
        """Yield the lists of earlier runs, the latest first."""
        self._store.replenish(self._kind, self._beside)
        return _valid((path for folder in self._folders for path in folder.glob("*.json")), self._model)

    def keep(self, reads: Reads) -> None:
        """Keep what a run read, for those after it.

        Raises:
            StoreError: The store cannot be written.
        """
        text = reads.model_dump_json(indent=1) + "\n"
        with storage_errors(self._root):
            write_atomic(self._folder / f"{text_digest(text)[:16]}.json", text)


def latest_reads(store: Store, kind: str, model: type[Reads], count: int) -> list[Reads]:
    """Return the latest lists of a kind, whatever else their results depend on, each once.

    Args:
        store: Where they are kept.
        kind: Their kind in the store.
        model: What such a list is read as.
        count: How many at most.
    """
    found: list[Reads] = []
    paths = (path for folder in store.folders(kind) for path in folder.glob("*/*.json"))
    for reads in _valid(paths, model):
        if len(found) == count:
            break
        if reads not in found:
            found.append(reads)
    return found


def content_digest(path: Path) -> str:
    """Return the digest of a file or link as it counts in a key; what is not there counts as `ABSENT`."""
    return entry_digest(path) if path.is_file() or path.is_symlink() else ABSENT


def _valid(paths: Iterable[Path], model: type[Reads]) -> Iterator[Reads]:
    for path in sorted(paths, key=lambda path: -_modified(path)):
        try:
            yield model.model_validate_json(read_plain(path, LONGEST))
        except (OSError, ValidationError):
            continue  # removed meanwhile, or damaged: the next run writes it again


def _modified(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0  # removed meanwhile
