"""A shared store by its address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from cpuwheels.core.errors import UsageError
from cpuwheels.core.urls import without_userinfo
from cpuwheels.shared.place import scheme_of

if TYPE_CHECKING:
    from cpuwheels.shared.place import Place


def open_place(address: str, *, writes: bool) -> Place:
    """Return the place at an address: a folder, ``s3://bucket/prefix``, or ``https://…`` if it is only read.

    Nothing is asked or made yet.

    Args:
        address: As the user gave it.
        writes: Whether it is written to.

    Raises:
        UsageError: It is none of these.
    """
    scheme = scheme_of(address)
    if scheme in {"", "file"} and address:
        from cpuwheels.shared.folder import Folder  # noqa: PLC0415  (what one place needs)

        path = unquote(urlsplit(address).path) if scheme else address
        return Folder(Path(path).expanduser().resolve())
    if scheme == "s3":
        from cpuwheels.shared.s3 import Bucket  # noqa: PLC0415

        return Bucket(address, writes=writes)
    if scheme in {"http", "https"}:
        if writes:
            raise UsageError(
                "a shared store is only read at its web address",
                where="--store",
                next_step="give the folder or s3://bucket/prefix that the server has it from",
            )
        from cpuwheels.shared.web import Web  # noqa: PLC0415

        return Web(address)
    raise UsageError(
        f"a shared store cannot be at {without_userinfo(address)!r:.200}",
        where="--store",
        next_step="give a folder, s3://bucket/prefix or https://…",
    )
