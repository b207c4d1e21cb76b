"""Entries of the stores in other stores of this machine, as second names of the same files where that is possible."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import link_or_copy, remove_tree, storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def link_entries(root: Path, kinds: Iterable[str], other: Path) -> None:
    """Copy the entries of some movable kinds to other stores, by hard links where possible.

    Args:
        root: Folder of the stores.
        kinds: Kinds whose entries hold no path of their own.
        other: Folder of the other stores; what they have stays.

    Raises:
        StoreError: The other stores cannot be written.
    """
    with storage_errors(other):
        for kind in kinds:
            for entry in sorted((root / kind).glob("[!.]*")):
                if (other / kind / entry.name).exists():
                    continue
                fresh = other / kind / f".new-{entry.name}"
                remove_tree(fresh)
                shutil.copytree(entry, fresh, symlinks=True, copy_function=link_or_copy)
                fresh.rename(other / kind / entry.name)
