"""Which compiler cache the build of a source uses: one that nobody else's programs could write to.

A build runs the source's own CMake and scripts, and these can write into the cache that the compilers next to them
use. So a cache is shared only by sources whose programs are the same: by the releases that matrix.yaml pins, and
otherwise by sources in which every file is the same that a build may run. Pinned projects of others (ACL, tcmalloc) use
that of the releases.
"""

from __future__ import annotations

import os
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

_NAME_LENGTH = 24


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
    with storage_errors(base):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        by_age = sorted(base.iterdir(), key=lambda path: -path.stat().st_mtime)
    for old in by_age[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)  # a build that still uses it makes it again
    current_usage().growing(folder, FOLDER)
    return replace(cache, folder=folder, remote=" ".join(f"{one}|read-only" for one in cache.remote.split()))
