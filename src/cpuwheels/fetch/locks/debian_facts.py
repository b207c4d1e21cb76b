"""How old a Debian package is, and whether its copyright file changed: from mirrors, and from the packages."""

from __future__ import annotations

import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.core.limits import DOWNLOAD, PAGE
from cpuwheels.fetch.debian.deb import read_member
from cpuwheels.fetch.debian.root import fetch_package
from cpuwheels.fetch.download import is_stored, mirrored
from cpuwheels.fetch.http_stream import HttpFaultError, http_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.debian_lock import DebianPackage
    from cpuwheels.core.store import Store

FETCHED = 2 << 20
"""Bytes up to which a package is fetched for its copyright file alone."""

_FOUND = (200, 206)


def published(package: DebianPackage, mirrors: Sequence[str]) -> datetime | None:
    """Return when a package came into the archive: mirrors keep the time of its file; None if none says it.

    Args:
        package: The package.
        mirrors: Debian mirrors, in order.
    """
    for url in mirrored(package.path, mirrors):
        if url.startswith("file://"):
            path = Path(urllib.request.url2pathname(urlsplit(url).path))
            if path.is_file():
                return datetime.fromtimestamp(path.stat().st_mtime, UTC)
            continue
        try:
            with http_answer(url, most=DOWNLOAD, headers={"Range": "bytes=0-0"}, patience=PAGE) as (head, _):
                if head.status in _FOUND and (said := head.headers.get("last-modified")):
                    return parsedate_to_datetime(said)
        except (HttpFaultError, ValueError):
            continue
    return None


def same_copyright(old: DebianPackage, new: DebianPackage, mirrors: Sequence[str], store: Store) -> bool | None:
    """Return whether two versions of a package have the same copyright file; None if that is not found out.

    Large packages are compared only if the store has both.
    """
    texts = []
    for package in (old, new):
        if package.size > FETCHED and not is_stored(package.sha256, store):
            return None
        try:
            texts.append(read_member(fetch_package(package, mirrors, store), f"usr/share/doc/{package.name}/copyright"))
        except CpuwheelsError:
            return None  # an old version is on no mirror any more, or the folder is another package's
    return texts[0] == texts[1]
