"""Sources that have the same kernels, by the names that git gives their files.

A class is a prediction, made without checking a commit out, of which kernels a source will have. Which it really gets
is decided by their key.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from cpuwheels.core.digests import text_digest, tree_names
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.kernels.request import KERNEL_INPUTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.core.store import Store
    from cpuwheels.kernels.depfile import Reads
    from cpuwheels.kernels.result import Kernels

KIND = "classes"

PINS = "requirements/cpu.txt"
"""Names torch, which kernels are compiled for."""

PARTS = (*KERNEL_INPUTS, PINS)
"""The parts of a source that kernels could depend on."""


def source_fingerprint(files: Mapping[str, str], reads: Reads) -> str:
    """Return the class of a source.

    Args:
        files: Mode and object name of each file below `PARTS`, as git has them.
        reads: What an earlier build depended on.
    """
    names: dict[str, set[str]] = {folder: set() for folder in reads.folders}
    for path in files:
        parts = path.split("/")
        for depth in range(len(parts)):
            if (folder := "/".join(parts[:depth])) in names:
                names[folder].add(parts[depth])
    content = [f"{name} {files.get(name, 'missing')}" for name in (*reads.files, PINS)]
    return text_digest("\n".join([*content, *(f"{folder}/ {sorted(found)}" for folder, found in names.items())]))


def tree_fingerprint(folder: Path, reads: Reads) -> str:
    """Return the class of a source tree.

    Args:
        folder: The tree as upstream has it.
        reads: What a build of it depended on.
    """
    counted = {*reads.files, PINS}  # of the others only the names do
    listing: dict[str, str] = {}
    for part in PARTS:
        place = folder / part
        names = [part] if place.is_file() else [f"{part}/{name}" for name in tree_names(place)]
        listing |= {name: _entry(f"{folder}/{name}") if name in counted else "" for name in names}
    return source_fingerprint(listing, reads)


def _entry(path: str) -> str:
    """Return mode and object name of a file, as git has them (gitformat-index(5), git-hash-object(1))."""
    link = os.path.islink(path)  # noqa: PTH114  (thousands of files)
    mode = "120000" if link else "100755" if os.access(path, os.X_OK) else "100644"
    if link:
        content = os.fsencode(os.readlink(path))  # noqa: PTH115
    else:
        with open(path, "rb") as stream:  # noqa: PTH123
            content = stream.read()
    named = hashlib.sha1(b"blob %d\0" % len(content) + content)  # noqa: S324  (git's own)
    return f"{mode} {named.hexdigest()}"


def keep_fingerprint(store: Store, target: str, source: Path, kernels: Kernels) -> None:
    """Note which kernels a source has, for predictions.

    Args:
        store: Where that is kept.
        target: Target id.
        source: The tree as upstream has it.
        kernels: Its kernels.

    Raises:
        StoreError: The store cannot be written.
    """
    with storage_errors(store.root):
        write_atomic(store.path(KIND, target) / tree_fingerprint(source, kernels.reads), f"{kernels.key}\n")
