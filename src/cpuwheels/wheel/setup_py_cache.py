"""The answers of a source's ``setup.py``, kept for sources that would get the same answers.

Asking takes longer than everything else in making a wheel, and the answers rarely change: metadata, which files are
packed, and the few that ``setup.py`` writes itself. They depend on the files that it reads and on the names of all
files, not on the content of files that setuptools only copies. So they are looked up by the files that were read for
earlier answers (`cpuwheels.core.direct_mode`).
"""

from __future__ import annotations

import filecmp
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import code_digest, make_key, text_digest, tree_names
from cpuwheels.core.direct_mode import DirectModeCache, content_digest
from cpuwheels.core.models import Strict
from cpuwheels.core.sealed_entry import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.core.store import Store

KIND = "packages"
READS = "setup-reads"

_LAYOUT = 1
_COPIED = "copied.json"
_METADATA = "metadata"
_OWN = "own"


class Notes(Strict):
    """What asking one question did; see `cpuwheels.wheel.resources.setup_py_probe`."""

    read: tuple[str, ...]
    """Files of the source, besides those that were only copied."""
    written: tuple[str, ...]
    """Absolute paths."""
    copied: dict[str, str]
    """Absolute paths: the copy → what setuptools copied."""
    against: tuple[str, ...]
    """Reasons why the answers depend on more than can be noted."""


class _Reads(Strict):
    files: tuple[str, ...]


class _Copied(Strict):
    files: dict[str, tuple[str, bool]]
    """Name in the package → name in the source, and whether it is executable in the package."""


@dataclass(frozen=True)
class Answers:
    """What ``setup.py`` says.

    Attributes:
        metadata: Folder with the ``.dist-info`` that it gives.
        files: Name in the wheel → a file with that content; only to be read.
    """

    metadata: Path
    files: dict[str, Path]


class SetupPyCache:
    """The answers for one source, if they were kept, and the place to keep them.

    Args:
        source: The prepared source.
        beside: Names everything else that the answers depend on: environment, version, device.
        store: Where answers are kept.
        names: The source's files that are in the copy that is asked.
    """

    def __init__(self, source: Path, beside: str, store: Store, names: Iterable[str]) -> None:
        self._source = source
        self._store = store
        self._names = sorted(set(names) - {MANIFEST})
        self._beside = make_key(layout=_LAYOUT, beside=beside, code=code_digest())
        self._reads = DirectModeCache(store, READS, self._beside, _Reads)
        self._listing = text_digest("\n".join(f"{name}\0{_kind(f'{source}/{name}')}" for name in self._names))

    def find(self, work: Path) -> Answers | None:
        """Return the answers if they were kept.

        Args:
            work: For files whose permissions in the package are others than in the source.
        """
        keys = dict.fromkeys(self._key(reads) for reads in self._reads.known())
        entry = next((found for key in keys if (found := self._store.find(KIND, key))), None)
        if entry is None:
            return None
        files = {name: entry / _OWN / name for name in tree_names(entry / _OWN)}
        for name, (origin, executable) in _Copied.model_validate_json((entry / _COPIED).read_bytes()).files.items():
            files[name] = self._with_mode(origin, work / name, executable=executable)
        return Answers(entry / _METADATA, files)

    def keep(self, answers: Answers, copy: Path, notes: Iterable[Notes]) -> str:
        """Keep answers for sources like this one, and return why not if they cannot be kept.

        Args:
            answers: The answers of ``setup.py``.
            copy: The private copy that was asked; its content may have been changed.
            notes: What asking did.

        Raises:
            StoreError: The store cannot be written.
        """
        together = list(notes)
        if against := sorted({reason for one in together for reason in one.against}):
            return ", ".join(against)
        reads = _Reads(files=tuple(sorted({name for one in together for name in one.read})))
        written = {path for one in together for path in one.written}
        copies = {path: source for one in together for path, source in one.copied.items()}
        copied: dict[str, tuple[str, bool]] = {}
        for name, path in answers.files.items():
            origin = copies.get(str(path), "")
            below = origin.removeprefix(f"{copy}/")
            if origin != below and origin not in written and str(path) not in written and self._same(below, path):
                copied[name] = (below, os.access(path, os.X_OK))

        def make(folder: Path) -> None:
            (folder / _COPIED).write_text(_Copied(files=copied).model_dump_json(indent=1) + "\n")
            shutil.copytree(answers.metadata, folder / _METADATA)
            for name in answers.files.keys() - copied.keys():
                (folder / _OWN / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(answers.files[name], folder / _OWN / name)

        self._store.get(KIND, self._key(reads), make)
        self._reads.keep(reads)
        return ""

    def _key(self, reads: _Reads) -> str:
        rows = (f"{name}\0{content_digest(self._source / name)}" for name in reads.files)
        return make_key(beside=self._beside, names=self._listing, read=text_digest("\n".join(rows)))

    def _same(self, name: str, path: Path) -> bool:
        origin = self._source / name
        return origin.is_file() and not origin.is_symlink() and filecmp.cmp(origin, path, shallow=False)

    def _with_mode(self, origin: str, copy: Path, *, executable: bool) -> Path:
        path = self._source / origin
        if os.access(path, os.X_OK) == executable:
            return path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        copy.chmod(0o755 if executable else 0o644)
        return copy


def _kind(path: str) -> str:
    """Return what can be seen of a file without opening it: its kind, and whether it is executable.

    All files of a source are asked for each wheel; making a `Path` of each would take twice as long.
    """
    mode = os.lstat(path).st_mode
    return f"{mode & 0o170000:o} {'x' if mode & 0o100 else '-'}"
