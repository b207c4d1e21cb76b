"""A local vLLM tree: an unpacked sdist or a checkout, with whatever changes it holds."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import setuptools_scm
from packaging.version import InvalidVersion, Version

from cpuwheels.errors import SourceError
from cpuwheels.keys import digest_of_entries, entry_digest, make_key, text_digest
from cpuwheels.process import capture, closed_environment
from cpuwheels.source.result import KIND, Source
from cpuwheels.source.sdist import sdist_version
from cpuwheels.store import sealed_digests

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.store import Store

DESCRIBE = ("git", "describe", "--dirty", "--tags", "--long", "--abbrev=40", "--match", "v[0-9]*")
"""Release tags only, as upstream's setup.py asks for them; crate tags such as ``proto-v0.3.0`` do not count."""

_NEEDED = ("CMakeLists.txt", "setup.py", "csrc/cpu", "requirements/cpu.txt", "vllm")
_NOT_SOURCE = {".git", "__pycache__", ".deps", "build", "dist", ".venv", ".mypy_cache", ".ruff_cache"}


@dataclass(frozen=True)
class TreeRequest:
    """A folder with vLLM's sources.

    Attributes:
        folder: The tree; it is copied, never written to.
    """

    folder: Path

    def get(self, store: Store, reporter: Reporter) -> Source:
        """Take a snapshot of the tree into the store.

        Uncommitted changes are part of it, and its version then ends in ``.dirty``. Files that git ignores,
        and build leftovers where there is no git, are left out.

        Raises:
            SourceError: The folder is not a vLLM tree, its version cannot be told, or a file cannot be read or was
                changed meanwhile.
        """
        check_tree(self.folder)
        version, version_from = tree_version(self.folder)
        names = _source_files(self.folder)
        epoch = _epoch(self.folder, names)
        digests = _digests(self.folder, names)
        digest = text_digest(f"{digest_of_entries(digests)} {version} {epoch}")
        key = make_key(tree=digest, layout=1)
        copy = store.find(KIND, key)
        if copy is None:
            before = store.latest(KIND)
            reporter.info(f"taking a snapshot of {len(names)} files of {self.folder}")
            copy = store.get(KIND, key, lambda fresh: _snapshot(self.folder, digests, fresh, before), of=before)
        return Source(
            version=version,
            folder=copy,
            digest=digest,
            epoch=epoch,
            origin=f"local tree, content {digest[:16]}",
            version_from=version_from,
        )


def _digests(folder: Path, names: list[str]) -> dict[str, str]:
    try:
        return {name: entry_digest(f"{folder}/{name}") for name in names}
    except OSError as error:
        raise SourceError(
            f"cannot read {error.filename}: {error.strerror}",
            where=folder,
            next_step="make it readable, or build again when nothing writes to the tree",
        ) from error


def _snapshot(folder: Path, digests: Mapping[str, str], copy: Path, before: Path | None) -> None:
    """Copy a tree; what an earlier snapshot has is linked from there, nobody writes to either.

    Raises:
        SourceError: A file was changed meanwhile.
    """
    known = sealed_digests(before) if before else {}
    for parent in {os.path.dirname(name) for name in digests}:  # noqa: PTH120  (thousands of files)
        (copy / parent).mkdir(parents=True, exist_ok=True)
    for name, digest in digests.items():
        if known.get(name) == digest and not digest.startswith("link:"):
            with contextlib.suppress(OSError):  # a file system without hard links, or the snapshot was just removed
                os.link(f"{before}/{name}", f"{copy}/{name}")
                continue
        shutil.copy2(f"{folder}/{name}", f"{copy}/{name}", follow_symlinks=False)
        if entry_digest(f"{copy}/{name}") != digest:
            raise SourceError(
                f"{name} was changed while the tree was read",
                where=folder / name,
                next_step="build again when nothing writes to the tree",
            )


def check_tree(folder: Path) -> None:
    """Check that a folder is a vLLM source tree with CPU kernels.

    Raises:
        SourceError: It is not; the missing parts are named.
    """
    if not folder.is_dir():
        raise SourceError(
            f"no folder {folder}",
            where="--source",
            next_step="give a version such as 0.32.0, or the path of a vLLM tree",
        )
    missing = [name for name in _NEEDED if not (folder / name).exists()]
    if missing:
        raise SourceError(
            f"{folder} is not a vLLM source tree: it lacks {', '.join(missing)}",
            where="--source",
            next_step="give the folder that holds vLLM's CMakeLists.txt and setup.py",
        )


def tree_version(folder: Path) -> tuple[str, str]:
    """Return a tree's version and how it was found.

    A checkout's version follows upstream's setuptools-scm rules; without git the tree must be an unpacked
    sdist. A dirty checkout's local part is ``+g<hash>.dirty`` instead of setuptools-scm's date, so that the
    same tree has the same version tomorrow.

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
        return version, "PKG-INFO"
    describe = capture(["git", "-C", folder, *DESCRIBE[1:]])
    dirty = describe.returncode == 0 and describe.output.strip().endswith("-dirty")
    try:
        version = setuptools_scm.get_version(
            root=folder,
            scm={"git": {"describe_command": list(DESCRIBE)}},
            local_scheme="no-local-version" if dirty else "node-and-date",
        )
    except LookupError as error:
        raise SourceError(
            f"cannot tell the version of {folder} from git: {error}",
            where="--source",
            next_step="fetch the release tags: git fetch --tags",
        ) from error
    if dirty:
        head = capture(["git", "-C", folder, "rev-parse", "--short", "HEAD"]).output.strip()
        version = f"{version}+g{head}.dirty"
    return version, f"git describe: {describe.output.strip() if describe.returncode == 0 else 'no release tag found'}"


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _source_files(folder: Path) -> list[str]:
    if (folder / ".git").exists():
        listing = capture(
            ["git", "-C", folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            env=closed_environment(),
        )
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
    commit = capture(["git", "-C", folder, "log", "-1", "--format=%ct"])
    if (folder / ".git").exists() and commit.returncode == 0:
        return int(commit.output)
    return max(int((folder / name).lstat().st_mtime) for name in names)
