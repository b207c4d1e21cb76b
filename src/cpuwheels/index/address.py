"""An index by its address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cpuwheels.core.errors import UsageError
from cpuwheels.core.urls import without_userinfo
from cpuwheels.index.bucket import Folder
from cpuwheels.index.s3 import S3Bucket
from cpuwheels.index.web import Web

if TYPE_CHECKING:
    from cpuwheels.index.bucket import Bucket


def open_for_reading(place: str) -> Bucket:
    """Return the index at a place, which may also be the address of a web server; nothing can be written at one.

    Raises:
        UsageError: It is none of these.
        StoreError: The folder cannot be made.
    """
    return Web(place) if urlsplit(place).scheme in {"http", "https"} else open_bucket(place)


def open_bucket(place: str) -> Bucket:
    """Return the bucket at a place: ``s3://bucket/prefix``, or a folder.

    Raises:
        UsageError: It is neither.
        StoreError: The folder cannot be made.
    """
    scheme = urlsplit(place).scheme
    if scheme == "s3":
        return S3Bucket(place)
    if scheme in {"", "file"}:
        return Folder(Path(urlsplit(place).path if scheme else place))
    raise UsageError(
        f"an index cannot be kept at {without_userinfo(place)}",
        where="--index",
        next_step="give a folder or s3://bucket/prefix",
    )
