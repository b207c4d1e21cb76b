"""A torch that the build environment cannot import, and what names it in the stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.digests import make_key
from cpuwheels.fetch.debian.root import content_key

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store
    from cpuwheels.environment.debian_root import DebianRoot
    from cpuwheels.environment.torch_index import TorchOffer

KIND = "torch"
LAYOUT = 3
"""Raised when the same torch would be laid out in another way."""


@dataclass(frozen=True)
class ForeignTorch:
    """A torch that programs of the build environment cannot import: its headers and libraries alone.

    Attributes:
        version: With its local label, such as ``2.14.0+cpu``.
        folder: Laid out as the installed package: ``include/``, ``lib/``.
        digest: Names its content.
        origin: For people: where it came from.
        pinned: Whether it is pinned by content.
        alternate: Whether it replaces a wheel that could not be fetched.
        root: The Debian root that it is part of, if this machine runs the root's Python.
        offer: The place of wheels that it is from; None if that is not known.
    """

    version: str
    folder: Path
    digest: str
    origin: str
    pinned: bool
    alternate: bool = False
    root: DebianRoot | None = None
    offer: TorchOffer | None = None


def environment_identity(root: Path, lock: str, version: str, store: Store) -> ForeignTorch:
    """Return a Debian root's torch as far as it names a build environment, whether or not it is there.

    Args:
        root: The project's folder.
        lock: Name of the root's lock.
        version: Of its torch.
        store: Where it would be.
    """
    content = content_key(load_lock(root, lock))
    folder = store.path(KIND, torch_key(content)) / "torch"
    return ForeignTorch(version, folder, content, f"locks/{lock}.yaml", pinned=True, alternate=True)


def torch_key(content: str) -> str:
    """Return the store's key of a Debian root's torch, by that of the root's content."""
    return make_key(layout=LAYOUT, root=content)
