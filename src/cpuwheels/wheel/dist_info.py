"""A wheel's ``.dist-info`` folder and the ``RECORD`` in it (binary distribution format)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from typing import TYPE_CHECKING

from cpuwheels.core.errors import WheelError

if TYPE_CHECKING:
    from collections.abc import Collection

NOTE = "cpuwheels.json"
"""File below ``.dist-info`` that says what a wheel is made from."""


def dist_info_of(names: Collection[str]) -> str:
    """Return the name of a wheel's ``.dist-info`` folder.

    Raises:
        WheelError: There is not exactly one.
    """
    found = sorted({name.partition("/")[0] for name in names if name.partition("/")[0].endswith(".dist-info")})
    if len(found) != 1:
        raise WheelError(f"a wheel has one .dist-info folder, this has {len(found)}", where=", ".join(found))
    return found[0]


def render_record(rows: Collection[tuple[str, str, str]]) -> bytes:
    """Return a ``RECORD`` with these rows of path, digest and size."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def record_digest(digest: bytes) -> str:
    """Return a sha256 as ``RECORD`` writes it (binary distribution format: urlsafe base64, no padding)."""
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def hex_digest(recorded: str) -> str:
    """Return a sha256 as 64 hex digits, from what ``RECORD`` has; empty if that is none."""
    kind, _, text = recorded.partition("=")
    try:
        digest = base64.urlsafe_b64decode(f"{text}=") if kind == "sha256" else b""
    except ValueError:
        return ""
    return digest.hex()


def content_digest(content: bytes) -> str:
    """Return the sha256 of a file's content as ``RECORD`` writes it."""
    return record_digest(hashlib.sha256(content).digest())
