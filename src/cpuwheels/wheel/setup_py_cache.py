"""The answers of a source's ``setup.py``, kept for sources that would get the same answers.

Asking takes longer than everything else in making a wheel, and the answers rarely change: metadata, which files are
packed, and the few that ``setup.py`` writes itself. Their key names all that ``setup.py`` was shown
(`cpuwheels.wheel.source_view`). What it was not shown it can only have copied, and a copy is taken from the source.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import code_digest, make_key, tree_names
from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store
    from cpuwheels.wheel.setup_py_run import Asked
    from cpuwheels.wheel.source_view import SourceView

KIND = "packages"

_LAYOUT = 2
_COPIED = "copied.json"
_METADATA = "metadata"
_OWN = "own"
_INSUFFICIENT = "insufficient.txt"


class _Copied(Strict):
    files: dict[str, bool]
    """Name in the package, which is that in the source → whether it is executable in the package."""


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
    """The answers for one view of a source, if they were kept, and the place to keep them.

    The key is formed here, before ``setup.py`` runs: what it may have changed afterwards is in no key.

    Args:
        view: What ``setup.py`` is shown.
        beside: Names everything else that the answers depend on: environment, version, device.
        store: Where answers are kept.
    """

    def __init__(self, view: SourceView, beside: str, store: Store) -> None:
        self._view = view
        self._store = store
        self._shown = view.key()
        self._key = make_key(layout=_LAYOUT, beside=beside, code=code_digest(), view=self._shown)

    def is_unchanged(self) -> bool:
        """Return whether the source is still what the key names."""
        return self._view.key() == self._shown

    def find(self, work: Path) -> Answers | None:
        """Return the answers if they were kept.

        Args:
            work: For files whose permissions in the package are others than in the source.
        """
        entry = self._store.find(KIND, self._key)
        if entry is None or (entry / _INSUFFICIENT).is_file():
            return None
        copied = _Copied.model_validate_json((entry / _COPIED).read_bytes()).files
        own = {name: entry / _OWN / name for name in tree_names(entry / _OWN)}
        return self._answers(entry / _METADATA, own, copied, work)

    def is_insufficient(self) -> bool:
        """Return whether it was noted before that ``setup.py`` needs to be shown more."""
        entry = self._store.find(KIND, self._key)
        return entry is not None and (entry / _INSUFFICIENT).is_file()

    def note_insufficient(self, reason: str) -> None:
        """Note that ``setup.py`` needs to be shown more, so that the next source like this one is asked only once.

        Raises:
            StoreError: The store cannot be written.
        """
        self._store.get(KIND, self._key, lambda folder: _write(folder / _INSUFFICIENT, f"{reason}\n"))

    def take(self, asked: Asked, work: Path, *, keep: bool) -> Answers:
        """Return what was asked now as answers, and keep it.

        Args:
            asked: What ``setup.py`` left.
            work: As in `find`.
            keep: Whether it is kept.

        Raises:
            StoreError: The store cannot be written.
        """
        own = {name: asked.package_folder / name for name in asked.packages}
        copied = {name: os.access(path, os.X_OK) for name, path in own.items() if self._is_copy(name, path)}
        own = {name: path for name, path in own.items() if name not in copied}

        def make(folder: Path) -> None:
            _write(folder / _COPIED, _Copied(files=copied).model_dump_json(indent=1) + "\n")
            shutil.copytree(asked.metadata, folder / _METADATA)
            for name, path in own.items():
                (folder / _OWN / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, folder / _OWN / name)

        if keep:
            self._store.get(KIND, self._key, make)
        return self._answers(asked.metadata, own, copied, work)

    def _is_copy(self, name: str, path: Path) -> bool:
        """Return whether a package file is what the view has under its name."""
        if self._view.is_emptied(name):
            return path.stat().st_size == 0
        return self._view.is_file(name) and filecmp.cmp(self._view.source / name, path, shallow=False)

    def _answers(self, metadata: Path, own: dict[str, Path], copied: dict[str, bool], work: Path) -> Answers:
        files = {name: self._with_mode(name, work / name, executable=mode) for name, mode in copied.items()}
        return Answers(metadata, own | files)

    def _with_mode(self, name: str, copy: Path, *, executable: bool) -> Path:
        path = self._view.source / name
        if self._view.is_executable(name) == executable:
            return path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        copy.chmod(0o755 if executable else 0o644)
        return copy


def insufficiency(view: SourceView, asked: Asked, copy: Path) -> str:
    """Return why answers to a view may be others than those to the whole source; nothing if they are not.

    These are the process's own notes. An honest one tells when an empty file misled it. One that lies spoils answers
    that are only found by whoever shows it the same files again.

    Args:
        view: What ``setup.py`` was shown.
        asked: What it left.
        copy: The folder that it ran in.
    """
    place = f"{copy}/"
    for notes in asked.notes:
        touched = [*notes.read, *(path.removeprefix(place) for path in notes.written if path.startswith(place))]
        if found := next(filter(view.is_emptied, touched), None):
            return f"it uses {found}"
        for target, origin in notes.copied.items():
            name = origin.removeprefix(place)
            if view.is_emptied(name) and target != f"{asked.left}/{name}":
                return f"it copies {name} to another place"
        if notes.against:
            return notes.against[0]
    return ""


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
