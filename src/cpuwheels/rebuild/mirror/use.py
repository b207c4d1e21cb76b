"""A mirror as a build uses it: its files in the stores, its repositories and its index in the environment."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.environment.torch_index import INDEX_VARIABLES
from cpuwheels.fetch.download import Pinned, fetch
from cpuwheels.rebuild.mirror.manifest import CLONES, PAGES, Manifest, check_files, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cpuwheels.core.store import Store

_VARIABLES = {"vllm": "CPUWHEELS_VLLM_REPO", "onednn": "CPUWHEELS_ONEDNN_REPO", "acl": "CPUWHEELS_ACL_REPO"}
_ELSEWHERE = (*INDEX_VARIABLES, "UV_FIND_LINKS", "PIP_FIND_LINKS", "UV_CONFIG_FILE", "UV_NO_INDEX", "UV_OFFLINE")
"""Settings that name other places."""


def variable_of(kind: str) -> str:
    """Return the variable in which a build is told of a repository of a project."""
    return _VARIABLES[kind]


@dataclass(frozen=True)
class Mirror:
    """A mirror whose files were compared with their digests.

    Attributes:
        folder: Where it is.
        manifest: What it has.
    """

    folder: Path
    manifest: Manifest

    def environment(self) -> dict[str, str]:
        """Return the settings with which a build asks the mirror and no other place."""
        found = {"UV_DEFAULT_INDEX": (self.folder / PAGES).as_uri(), "UV_NO_CONFIG": "1", "PIP_CONFIG_FILE": os.devnull}
        for clone in self.manifest.clones:
            if clone.kind in _VARIABLES:
                found[variable_of(clone.kind)] = str(self.folder / CLONES / clone.name)
        return found

    def fill(self, store: Store) -> None:
        """Put the files that cpuwheels itself would fetch into a store; uv reads the others in their places.

        Raises:
            DigestMismatchError: One has other bytes than the manifest says.
            StoreError: The store cannot be written.
        """
        for one in self.manifest.files:
            if one.project is None:
                url = (self.folder / one.place).as_uri()
                fetch(Pinned(one.name, (url,), one.sha256, one.size, file_name=one.name), store)


def open_mirror(folder: Path) -> Mirror:
    """Return a mirror, after all its files were compared with their digests.

    Raises:
        MirrorError: It is none, or damaged.
    """
    place = folder.expanduser().resolve()
    manifest = read_manifest(place)
    check_files(place, manifest)
    return Mirror(place, manifest)


@contextmanager
def settings_of(mirror: Mirror | None, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Have this process and its commands ask a mirror and no other place, while the block runs.

    Args:
        mirror: Nothing is changed without one.
        more: More variables, with a mirror.
    """
    if mirror is None:
        yield
        return
    before = dict(os.environ)
    for name in _ELSEWHERE:
        os.environ.pop(name, None)
    os.environ.update(mirror.environment() | dict(more or {}))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
