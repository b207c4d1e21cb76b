"""Source archives from Debian's mirrors: fetched, checked against their pin, and unpacked into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.download import Pinned, fetch, mirrored
from cpuwheels.fetch.tarball import unpack_tar

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.pins import DebianSource


def get_debian_source(context: BuildContext, kind: str, title: str, pin: DebianSource) -> Path:
    """Return the unpacked tree of a source archive; read only.

    Args:
        context: The run; its matrix has the mirrors.
        kind: Of the store's entry.
        title: For people, without the version.
        pin: The archive.

    Raises:
        DownloadError: It is on no mirror and not in the store.
        DigestMismatchError: The bytes are not the pinned ones.
    """

    def make(folder: Path) -> None:
        name = f"{title} {pin.version} sources"
        archive = fetch(
            Pinned(name, mirrored(pin.debian, debian_mirrors(context)), pin.sha256, pin.size),
            context.store,
            on_bytes=lambda done, total: context.reporter.download(name, done, total),
        )
        unpack_tar(archive, folder)

    return context.store.get(kind, make_key(archive=pin.sha256, layout=1), make)
