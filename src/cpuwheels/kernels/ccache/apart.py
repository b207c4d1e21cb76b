"""Which compiler cache the build of a source uses: one that nobody else's programs could write to.

A build runs the source's own CMake and scripts, and these can write into the cache that the compilers next to them
use. So a cache is shared only by sources whose programs are the same: by the releases that matrix.yaml pins, and
otherwise by sources in which every file is the same that a build may run. Pinned projects of others (ACL, tcmalloc) use
that of the releases. Every other cache begins with what the releases' has: with copies, since a build could write
through a link.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.core.digests import tree_digest
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.trust import Trust
from cpuwheels.core.usage import current_usage
from cpuwheels.kernels.ccache.settings import FOLDER
from cpuwheels.kernels.executed import counted_files

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store
    from cpuwheels.kernels.ccache.settings import CompilerCache

KEPT = 3
"""Caches of sources with other programs that stay; each has its own size. Those of the latest builds."""

BEGINS_WITH = 2**30
"""Bytes that a cache begins with at most: what builds of releases used last. One release leaves 0.34 GB. ccache counts
what it adds itself, so a cache can be larger by this."""

_NAME_LENGTH = 24

_ENTRY = re.compile(r"[0-9a-f]/([0-9a-f]/)*[0-9a-z]+[RM]|headers/[0-9a-f]{64}\.json")
"""A result or a manifest in ccache's folder, or a record of ``resources/headers.py``."""


def cache_for(cache: CompilerCache, store: Store, source: Path) -> CompilerCache:
    """Return the cache for a source's build; what it has no part in is read from a shared one at most.

    Args:
        cache: As the user chose it.
        store: The stores, with who vouches for the source.
        source: The source.

    Raises:
        StoreError: Its folder cannot be made.
    """
    if store.trust is Trust.RELEASE:
        return cache
    base = store.folder(FOLDER)
    folder = base / tree_digest(source, counted_files(source))[:_NAME_LENGTH]
    current_usage().growing(folder, FOLDER)
    with storage_errors(base):
        if not folder.is_dir():
            _begin(folder, cache.root / FOLDER, store)
        os.utime(folder)
        by_age = sorted(base.iterdir(), key=lambda path: -path.stat().st_mtime)
    for old in by_age[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)  # a build that still uses it makes it again
    return replace(cache, folder=folder, remote=" ".join(f"{one}|read-only" for one in cache.remote.split()))


def _begin(folder: Path, releases: Path, store: Store) -> None:
    """Make a cache with what the releases' has; another build may do the same at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with store.scratch(FOLDER) as work:
        fresh = work / folder.name
        fresh.mkdir()
        for name in _latest(releases):
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # ccache has just removed it
                shutil.copy2(releases / name, fresh / name)
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _latest(cache: Path) -> list[str]:
    """Return the results, manifests and records that were used last, by their names in a cache's folder."""
    found = []
    for path in cache.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if _ENTRY.fullmatch(name := str(path.relative_to(cache))):
                found.append((path.stat(), name))
    found.sort(key=lambda each: -each[0].st_mtime)
    names, room = [], BEGINS_WITH
    for status, name in found:
        room -= status.st_size
        if room < 0:
            break
        names.append(name)
    return names
