"""Layers of an image: tar archives with the same bytes for the same files, packed with gzip.

Members are sorted, all have one time, owners are numbers, and modes are decided here: nothing is taken from the disk
but contents and whether a file is executable.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import zlib
from dataclasses import asdict, dataclass
from io import BytesIO, RawIOBase
from typing import IO, TYPE_CHECKING

from cpuwheels.core.digests import make_key, tree_names
from cpuwheels.core.sealed_entry import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from typing_extensions import Buffer

    from cpuwheels.core.store import Store

KIND = "image-layers"
EARLIEST = 315532800
"""1980-01-01, the time of all files below the wheel's layer: those layers must not depend on the wheel, and a ZIP
archive, which a program in the image may write, has no earlier time."""

_RECIPE = 1
"""Raised when the same members would give other bytes."""
_LEVEL = 6
_GZIP = 31  # zlib's number for a gzip header, which it writes without a time
_BLOB, _FACTS = "layer.tar.gz", "layer.json"


@dataclass(frozen=True)
class Member:
    """One entry of a layer.

    Attributes:
        content: A file on disk, or bytes; None for a folder or a link.
        mode: Permission bits.
        link: What a symbolic link names.
        owner: Number of its user and group.
    """

    content: Path | bytes | None = None
    mode: int = 0o644
    link: str | None = None
    owner: int = 0


@dataclass(frozen=True)
class Layer:
    """A packed layer.

    Attributes:
        created_by: What it holds, for the image's history.
        digest: sha256 of the packed bytes.
        diff_id: sha256 of the tar archive.
        size: Packed bytes.
        unpacked: Bytes of the tar archive.
        path: The packed file.
    """

    created_by: str
    digest: str
    diff_id: str
    size: int
    unpacked: int
    path: Path


def folder(mode: int = 0o755, owner: int = 0) -> Member:
    """Return a folder."""
    return Member(mode=mode, owner=owner)


def folder_members(root: Path, place: str = "") -> dict[str, Member]:
    """Return the files and links below a folder by their paths in the image.

    Args:
        root: The folder.
        place: Path in the image that stands for it, without a slash in front; empty for ``/``.
    """
    members = {}
    for name in tree_names(root):
        if name == MANIFEST:
            continue
        path = root / name
        status = path.lstat()
        inside = f"{place}/{name}" if place else name
        if path.is_symlink():
            members[inside] = Member(mode=0o777, link=os.readlink(path))  # noqa: PTH115  (as it is written)
        else:
            members[inside] = Member(path, 0o755 if status.st_mode & 0o100 else 0o644)
    return members


def stored_layer(
    store: Store, created_by: str, epoch: int, make: Callable[[], Mapping[str, Member]], **inputs: object
) -> Layer:
    """Return a layer from the store, packing it first if it is not there.

    Args:
        store: The stores.
        created_by: What it holds.
        epoch: Time of all members, in seconds since 1970.
        make: Returns the members by their paths in the image.
        inputs: Everything that the members depend on.

    Raises:
        StoreError: The store cannot be written.
    """
    # The packed bytes depend on zlib; the tar archive inside, and so the diff_id, does not.
    packing = {"recipe": _RECIPE, "zlib": zlib.ZLIB_RUNTIME_VERSION, "level": _LEVEL}
    key = make_key(created_by=created_by, epoch=epoch, packing=packing, inputs=inputs)

    def pack(fresh: Path) -> None:
        layer = write_layer(make(), epoch, fresh / _BLOB, created_by)
        facts = {name: value for name, value in asdict(layer).items() if name != "path"}
        (fresh / _FACTS).write_text(json.dumps(facts), encoding="utf-8")

    entry = store.get(KIND, key, pack)
    facts = json.loads((entry / _FACTS).read_text(encoding="utf-8"))
    return Layer(**facts, path=entry / _BLOB)


def write_layer(members: Mapping[str, Member], epoch: int, target: Path, created_by: str = "") -> Layer:
    """Write a layer.

    Args:
        members: By their paths in the image, without a slash in front; folders that are missing are added.
        epoch: Time of all members, in seconds since 1970.
        target: The file to write.
        created_by: What it holds.

    Raises:
        OSError: A file cannot be read or written.
    """
    everything = {parent: folder() for name in members for parent in _parents(name)} | dict(members)
    with target.open("wb") as stream:
        packed = _Packer(stream)
        with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for name in sorted(everything, key=lambda name: name.split("/")):
                _add(tar, name, everything[name], epoch)
        packed.finish()
    return Layer(
        created_by=created_by,
        digest=packed.outer.hexdigest(),
        diff_id=packed.inner.hexdigest(),
        size=packed.size,
        unpacked=packed.unpacked,
        path=target,
    )


def _add(tar: tarfile.TarFile, name: str, member: Member, epoch: int) -> None:
    info = tarfile.TarInfo(name)
    info.mtime, info.mode, info.uid, info.gid = epoch, member.mode, member.owner, member.owner
    if member.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, member.link
        tar.addfile(info)
    elif isinstance(member.content, bytes):
        info.size = len(member.content)
        tar.addfile(info, BytesIO(member.content))
    elif member.content is not None:
        with member.content.open("rb") as stream:
            info.size = os.fstat(stream.fileno()).st_size
            tar.addfile(info, stream)
    else:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: place + 1]) for place in range(len(parts))]


class _Packer(RawIOBase):
    """A stream that packs what is written to it, and takes the digests of both sides."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self._gzip = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        self.inner, self.outer = hashlib.sha256(), hashlib.sha256()
        self.size = self.unpacked = 0

    def write(self, data: Buffer) -> int:
        self.inner.update(data)
        self.unpacked += memoryview(data).nbytes
        self._put(self._gzip.compress(data))
        return memoryview(data).nbytes

    def finish(self) -> None:
        self._put(self._gzip.flush())

    def _put(self, data: bytes) -> None:
        self.outer.update(data)
        self.size += len(data)
        self._stream.write(data)
