"""The object of an entry in a place: fetched and compared with its description, or written so that it is whole."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cpuwheels.shared.archive import LARGEST, LEVEL, RefusedTreeError, pack, tree_id, unpack_tree
from cpuwheels.shared.description import Described, describe
from cpuwheels.shared.place import PlaceFaultError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from cpuwheels.core.trust import Trust
    from cpuwheels.shared.place import Place


@dataclass(frozen=True)
class Packed:
    """An object that may be written.

    Attributes:
        described: Its description.
        file: Its content.
    """

    described: Described
    file: Path


@contextmanager
def packed(
    kind: str, key: str, trust: Trust, folder: Path, names: list[str], tree: str, level: int = LEVEL
) -> Iterator[Packed]:
    """Yield the object of an entry, which is removed afterwards.

    Args:
        kind: Of the entry.
        key: Its key.
        trust: Who vouches for it.
        folder: Its files.
        names: Those that count.
        tree: Digest of all that is the same in every build.
        level: Of compression, 0 to 9 (zlib).

    Raises:
        RefusedTreeError: It cannot be packed, or is too large.
        OSError: There is no room for it.
    """
    with tempfile.NamedTemporaryFile(prefix="cpuwheels-share-") as file:
        sha256 = pack(folder, names, file, level)
        file.flush()
        size = file.tell()
        if size > LARGEST:
            raise RefusedTreeError(f"it has {size:,} bytes")
        yield Packed(describe(kind, key, trust, sha256=sha256, size=size, tree=tree), Path(file.name))


def put_object(place: Place, wanted: Packed, *, known_bad: bool = False) -> None:
    """Write an object; one with the same name that is not whole is replaced.

    Args:
        place: Where.
        wanted: The object.
        known_bad: Whether one that is there is not whole, whatever its size.
    """
    described = wanted.described
    if place.add(described.object, wanted.file):
        return
    if known_bad or place.size(described.object) != described.size:
        place.remove(described.object)
        place.add(described.object, wanted.file)


def is_whole(place: Place, described: Described, *, thorough: bool = False) -> bool:
    """Return whether a description's object is there: by its size, since an upload that was cut off has another.

    Args:
        place: Where.
        described: The description.
        thorough: Whether all of it is read and compared.
    """
    if place.size(described.object) != described.size:
        return False
    if thorough:
        with tempfile.TemporaryFile() as file:
            try:
                fetch_object(place, described, file)
            except RefusedTreeError:
                return False
            except PlaceFaultError as fault:
                if fault.missing:
                    return False
                raise
    return True


def fetch_object(place: Place, described: Described, file: IO[bytes]) -> None:
    """Write a described object into a file.

    Raises:
        RefusedTreeError: It has other bytes than its description says.
    """
    digest, size = hashlib.sha256(), 0
    for piece in place.stream(described.object, described.size):
        digest.update(piece)
        size += len(piece)
        file.write(piece)
    if (digest.hexdigest(), size) != (described.sha256, described.size):
        raise RefusedTreeError("it has other bytes than its description says")


def fetch_tree(place: Place, described: Described, folder: Path, measured: Collection[str], room: Path) -> None:
    """Unpack a described object into a folder, once its digest was compared.

    Args:
        place: Where it is.
        described: The description, which is believed.
        folder: Empty.
        measured: Names of files that differ from build to build.
        room: Where the object is kept meanwhile.

    Raises:
        RefusedTreeError: It is not what was described.
        OSError: The folder cannot be written.
    """
    with tempfile.TemporaryFile(dir=room) as file:
        fetch_object(place, described, file)
        file.seek(0)
        unpack_tree(file, folder)
    if tree_id(folder, measured) != described.tree:
        raise RefusedTreeError("it has other files than its description says")
