"""What ``setup.py`` is shown of a source: all names, and the content of the few files that it reads.

What the step sees is what its key names. Answers of ``setup.py`` are kept for other sources, and it may be anybody's
program, so what it reports of itself decides nothing. It runs in a copy of the source in which all other files are
empty. An empty file carries no program and no text, so only the names and the content that are shown can matter, and
all of these are in the key. A commit that changes other files only has the same key.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.sealed_entry import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SHOWN = re.compile(
    r"""
      [^/]+                                # setup.py, pyproject.toml, MANIFEST.in, README.md, LICENSE, PKG-INFO …
    | [^/]+\.egg-info/[^/]+                # an sdist's list of files, which setuptools takes package data from
    | requirements/.+
    | tools/[^/]+\.py                      # tools/build_rust.py
    | vllm/(envs|version|_version)\.py     # its settings, and what setuptools-scm writes
    """,
    re.VERBOSE,
)
"""Files of vLLM 0.31 to 0.33 that ``setup.py`` reads for its metadata and its package, and what is likely to become
one of them. Where it reads another one, it is asked again with everything shown."""

_LINK = "link:"


@dataclass(frozen=True)
class SourceView:
    """A source as ``setup.py`` is shown it.

    Attributes:
        source: The tree in the store; only read.
        kinds: Name of each file → what is seen of it without opening it: whether it is executable, or a link's target.
        shown: Regular files whose content is shown.
        outside: A link that leads out of the source: no key names what is behind it.
    """

    source: Path
    kinds: Mapping[str, str]
    shown: frozenset[str]
    outside: str | None

    @property
    def is_whole(self) -> bool:
        """Whether the content of every file is shown."""
        return all(name in self.shown or kind.startswith(_LINK) for name, kind in self.kinds.items())

    def key(self) -> str:
        """Return a digest of all that is shown."""
        content = [[name, file_digest(f"{self.source}/{name}")] for name in sorted(self.shown)]
        return make_key(names=sorted(self.kinds.items()), shown=content)

    def is_emptied(self, name: str) -> bool:
        """Return whether a name is that of a file whose content is not shown."""
        return name not in self.shown and not self.kinds.get(name, _LINK).startswith(_LINK)

    def is_file(self, name: str) -> bool:
        """Return whether a name is that of a regular file of the source."""
        return not self.kinds.get(name, _LINK).startswith(_LINK)

    def is_executable(self, name: str) -> bool:
        """Return whether a regular file of the source is executable."""
        return self.kinds[name] == "x"

    def lay(self, copy: Path) -> None:
        """Write the view as a folder of its own, of which no file is a second name of one in the store.

        Args:
            copy: The folder; made.

        Raises:
            OSError: It cannot be written.
        """
        copy.mkdir(parents=True)
        empty = _Empty()
        for parent in sorted({os.path.dirname(name) for name in self.kinds}):  # noqa: PTH120  (thousands of files)
            os.makedirs(f"{copy}/{parent}", exist_ok=True)  # noqa: PTH103
        for name, kind in self.kinds.items():
            path = f"{copy}/{name}"
            if kind.startswith(_LINK):
                os.symlink(kind.removeprefix(_LINK), path)  # noqa: PTH211
            elif name in self.shown:
                shutil.copy2(f"{self.source}/{name}", path)
            else:
                empty.write(path, 0o755 if kind == "x" else 0o644)


class _Empty:
    """Empty files: second names of the first, since that is ten times as fast as making thousands of them."""

    def __init__(self) -> None:
        self._made: dict[int, str] = {}

    def write(self, path: str, mode: int) -> None:
        if mode in self._made:
            with contextlib.suppress(OSError):  # no hard links here, or as many as a file may have
                os.link(self._made[mode], path)
                return
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        self._made[mode] = path


def view_of(source: Path, names: Iterable[str], *, whole: bool = False) -> SourceView:
    """Return what ``setup.py`` is shown of a source.

    Args:
        source: The tree in the store.
        names: Its files and links that are in the copy.
        whole: Whether the content of every file is shown.
    """
    kinds = {name: _kind(f"{source}/{name}") for name in names if name != MANIFEST}
    files = {name for name, kind in kinds.items() if not kind.startswith(_LINK)}
    shown = files if whole else {name for name in files if SHOWN.fullmatch(name)}
    outside = None
    for name in kinds.keys() - files:
        behind = os.path.relpath(os.path.realpath(f"{source}/{name}"), os.path.realpath(source))
        if behind in files:
            shown.add(behind)
        else:  # a folder, nothing, or what is not the source's
            shown = files
            outside = outside or (None if _is_folder_of(behind, files) else name)
    return SourceView(source, kinds, frozenset(shown), outside)


def _is_folder_of(name: str, files: Iterable[str]) -> bool:
    return any(file.startswith(f"{name}/") for file in files)


def _kind(path: str) -> str:
    if os.path.islink(path):  # noqa: PTH114  (thousands of files)
        return f"{_LINK}{os.readlink(path)}"  # noqa: PTH115
    return "x" if os.lstat(path).st_mode & 0o100 else "-"
