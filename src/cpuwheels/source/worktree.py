"""A local vLLM tree: an unpacked sdist or a checkout, with whatever changes it holds."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from packaging.version import InvalidVersion, Version

from cpuwheels.core.errors import SourceError, UnsuitableSourceError
from cpuwheels.core.trust import Trust
from cpuwheels.fetch.git import Git
from cpuwheels.source.repository import Repository
from cpuwheels.source.result import epoch_of
from cpuwheels.source.sdist import sdist_version
from cpuwheels.source.snapshot import take_snapshot
from cpuwheels.source.version import Described, describe

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.source.result import Source

_NEEDED = ("CMakeLists.txt", "setup.py", "csrc/cpu", "requirements/cpu.txt", "vllm")
_NOT_SOURCE = {".git", "__pycache__", ".deps", "build", "dist", ".venv", ".mypy_cache", ".ruff_cache"}


@dataclass(frozen=True)
class TreeRequest:
    """A folder with vLLM's sources.

    Attributes:
        folder: The tree; it is copied, never written to.
    """

    folder: Path
    trust: ClassVar = Trust.LOCAL

    def get(self, store: Store, reporter: Reporter) -> Source:
        """Take a snapshot of the tree into the store.

        Uncommitted changes are part of it, and its version then ends in ``.dirty``. Files that git ignores,
        and build leftovers where there is no git, are left out.

        Raises:
            SourceError: The folder is not a vLLM tree, its version cannot be determined, or a file cannot be read or
                was changed meanwhile.
        """
        check_tree(self.folder)
        described = tree_version(self.folder)
        names = _source_files(self.folder)
        epoch = _epoch(self.folder, names)
        return take_snapshot(
            self.folder, names, described, epoch=epoch, origin="local tree", store=store, reporter=reporter
        )


def check_tree(folder: Path) -> None:
    """Check that a folder is a vLLM source tree with CPU kernels.

    Raises:
        SourceError: There is no such folder.
        UnsuitableSourceError: It is not; the missing parts are named.
    """
    if not folder.is_dir():
        raise SourceError(
            f"no folder {folder}",
            where="--source",
            next_step="give a version such as 0.32.0, or the path of a vLLM tree",
        )
    check_parts([name for name in _NEEDED if (folder / name).exists()], str(folder))


def check_parts(names: Collection[str], what: str) -> None:
    """Check that some files and folders are those of a vLLM source tree with CPU kernels.

    Args:
        names: Their relative POSIX paths.
        what: What a message calls them.

    Raises:
        UnsuitableSourceError: They are not; the missing parts are named.
    """
    there = {parent for name in names for parent in accumulate(name.split("/"), "{}/{}".format)}
    missing = [name for name in _NEEDED if name not in there]
    if missing:
        raise UnsuitableSourceError(
            f"{what} is not a vLLM source tree: it lacks {', '.join(missing)}",
            where="--source",
            next_step="give the folder that holds vLLM's CMakeLists.txt and setup.py",
        )


def tree_version(folder: Path) -> Described:
    """Return a tree's version.

    A checkout's version follows upstream's rules; without git the tree must be an unpacked sdist.

    Raises:
        SourceError: Neither is there.
    """
    if not (folder / ".git").exists():
        version = sdist_version(folder)
        if version is None or not _is_version(version):
            raise SourceError(
                f"cannot tell the version of {folder}: it is neither a git checkout nor an unpacked sdist",
                where="--source",
                next_step="use a checkout with its tags, or an sdist, which has a PKG-INFO",
            )
        return Described(version, "PKG-INFO")
    return describe(Git(folder))


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _source_files(folder: Path) -> list[str]:
    if (folder / ".git").exists():
        listing = Git(folder).ask("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if listing.returncode != 0:
            raise SourceError(
                "git cannot list the tree's files",
                where=folder,
                output=listing.output,
                next_step="check the checkout with git status",
            )
        names = {name for name in listing.output.split("\0") if name}
        return sorted(name for name in names if (folder / name).is_file() or (folder / name).is_symlink())
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _NOT_SOURCE)
        # os.walk counts a link to a folder as a folder but does not go into it.
        links = [name for name in folders if os.path.islink(f"{place}/{name}")]  # noqa: PTH114
        below = os.path.relpath(place, folder)
        found += [name if below == "." else f"{below}/{name}" for name in files + links]
    return sorted(found)


def _epoch(folder: Path, names: list[str]) -> int:
    if (folder / ".git").exists():
        repository = Repository(Git(folder), str(folder))
        with contextlib.suppress(SourceError):  # no commit yet
            return repository.epoch("HEAD")
    return epoch_of(max((folder / name).lstat().st_mtime for name in names))
